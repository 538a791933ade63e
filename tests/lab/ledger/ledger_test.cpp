#include "experiments/lab/ledger/ledger.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/ledger/page.h"
#include "experiments/lab/tables/sweep_table.h"
#include "tests/lab/base/text.h"
#include "tests/lab/ledger/made_up_claim.h"

using namespace normlab;

TEST_CASE("ledger: a claim without results is not run, and counts what is missing") {
  const MadeUpClaim made(kGain);
  CHECK(made.line().verdict == Verdict::not_run);
  CHECK(made.line().runs == 6);
  CHECK(made.line().done == 0);
  fake_done(made.store, made.experiment.trials[0], 0.5);
  CHECK(made.line().done == 1);
  for (const std::size_t t : {1, 3, 4})
    fake_done(made.store, made.experiment.trials[t], t < 3 ? 0.51 : 0.9 + 0.001 * double(t));
  const LedgerLine line = made.line();
  CHECK(line.estimates[0].verdict == Verdict::holds);  // two of three seeds would do
  CHECK(line.verdict == Verdict::not_run);
}

TEST_CASE("ledger: results decide a claim, and a changed result changes the verdict") {
  const MadeUpClaim good(kGain), bad(kGain);
  good.finish(0.05);
  const LedgerLine line = good.line();
  CHECK(line.verdict == Verdict::holds);
  CHECK(line.number == "7");
  CHECK(line.estimates[0].value == doctest::Approx(5 + 100 * (0.003 - 0 + 0 - 0.002 + 0.002 - 0.004) / 3));
  bad.finish(-0.05);
  CHECK(bad.line().verdict == Verdict::fails);
}

TEST_CASE("ledger: one test that fails decides a claim") {
  const MadeUpClaim made(kGain + R"(, {"kind": "gain", "where": "placement = dpn", "range": [10, null]})");
  made.finish(0.05);
  CHECK(made.line().verdict == Verdict::fails);
  CHECK(made.line().estimates[0].verdict == Verdict::holds);
  const MadeUpClaim alone(kGain);
  alone.finish(0.05);
  CHECK(made.line().estimates[0].low < alone.line().estimates[0].low);  // two tests share the level
}

TEST_CASE("ledger: a difference of two metrics of the same run") {
  const MadeUpClaim made(
      R"({"kind": "difference", "of": "train/loss", "over": "eval/loss", "where": "placement = dpn", "range": [0, null]})");
  made.finish(0);
  const LedgerLine line = made.line();
  CHECK(line.estimates[0].value == doctest::Approx(2.5 - 0.3 * 5 + 0.02 - 0.4));
  CHECK(line.verdict == Verdict::holds);
}

TEST_CASE("ledger: probes are averaged over the steps that the test asks for") {
  const auto test = [](const std::string& more) {
    return R"({"kind": "probe", "of": "train/*", "where": "placement = dpn", )" + more + R"("range": [1.1, null]})";
  };
  const auto value = [&](const std::string& more) {
    const MadeUpClaim made(test(more));
    made.finish(0);
    return made.line().estimates[0].value;
  };
  const auto geometric = [](double a, double b, double c) { return std::cbrt(a * b * c); };
  // fake_values(): 2.5 - 0.3 k + 0.02 seed for the evaluations k = 1 .. 5
  CHECK(value("") ==
        doctest::Approx(geometric((2.2 + 1.9 + 1.6 + 1.3 + 1.2 + 1.0) / 6, (2.22 + 1.92 + 1.62 + 1.32 + 1.2 + 1.02) / 6,
                                  (2.24 + 1.94 + 1.64 + 1.34 + 1.2 + 1.04) / 6)));
  CHECK(value(R"("first": 1, )") == doctest::Approx(geometric(2.2, 2.22, 2.24)));
  CHECK(value(R"("last": 2, )") == doctest::Approx(geometric(1.1, 1.11, 1.12)));
  CHECK(value(R"("over": "eval/loss", "last": 1, )") == doctest::Approx(geometric(1.0, 1.02, 1.04) / 0.4));
  CHECK(value(R"("against": "placement = pre_pre", )") == doctest::Approx(1));
  const MadeUpClaim made(R"({"kind": "probe", "of": "afv/*", "where": "placement = dpn", "range": [1, null]})");
  made.finish(0);
  const LedgerLine line = made.line();
  CHECK(line.verdict == Verdict::undecided);
  CHECK(line.estimates[0].why == "3 of 3 runs of dpn did not measure afv/*");
  REQUIRE(line.problems.size() == 1);
  CHECK(has(*line.problems.begin(), line.estimates[0].why + "; request it under \"probes\""));
}

TEST_CASE("ledger: a probe that some runs lack decides nothing") {
  const auto judged = [](const std::map<std::uint64_t, double>& probes) {
    const MadeUpClaim made(R"({"kind": "probe", "of": "probe/x", "where": "placement = dpn", "range": [null, 100]})");
    made.finish(0, probes);
    return made.line();
  };
  const LedgerLine all = judged({{0, 2}, {1, 2.1}, {2, 2.2}}), two = judged({{0, 2}, {1, 2.1}}),
                   zero = judged({{0, 2}, {1, 2.1}, {2, 0}});
  CHECK(all.verdict == Verdict::holds);
  CHECK(all.problems.empty());
  CHECK(two.verdict == Verdict::undecided);
  CHECK(two.estimates[0].n == 2);
  CHECK(two.estimates[0].why == "1 of 3 runs of dpn did not measure probe/x");
  CHECK(zero.verdict == Verdict::undecided);
  CHECK(zero.estimates[0].why == "1 of 3 runs of dpn measured zero or less as probe/x, which has no logarithm");
}

TEST_CASE("ledger: a difference without the runs that diverged decides nothing") {
  const MadeUpClaim made(
      R"({"kind": "difference", "of": "train/loss", "over": "eval/loss", "where": "placement = dpn", "range": [0, null]})");
  for (const Trial& trial : made.experiment.trials)
    if (trial.row == 1 && trial.config.seed == 1) fake_diverged(made.store, trial, 25);
  made.finish(0);
  const LedgerLine line = made.line();
  CHECK(line.done == 3);
  CHECK(line.verdict == Verdict::undecided);
  CHECK(line.estimates[0].why == "1 of 3 runs of dpn diverged");
}

TEST_CASE("ledger: the weakest estimate decides where all must agree, the clearest where one suffices") {
  LedgerLine line;
  const auto estimate = [](double low, double high, Verdict verdict) {
    return Estimate{
        .label = "", .unit = "points", .value = (low + high) / 2, .low = low, .high = high, .verdict = verdict};
  };
  ClaimTest& test = line.claim.tests.emplace_back();
  test.range = {0.0, {}, false};
  line.verdict = Verdict::holds;
  line.estimates = {estimate(8, 10, Verdict::holds), estimate(1, 2, Verdict::holds), estimate(3, 9, Verdict::holds)};
  CHECK(deciding(line) == &line.estimates[2]);  // half an interval from zero
  test.any = true;
  CHECK(deciding(line) == &line.estimates[0]);
  test.any = false;
  line.verdict = Verdict::fails;
  line.estimates = {estimate(-2, -1, Verdict::fails), estimate(-9, -8, Verdict::fails), estimate(1, 2, Verdict::holds)};
  CHECK(deciding(line) == &line.estimates[1]);
  line.verdict = Verdict::undecided;
  for (Estimate& e : line.estimates) e.verdict = Verdict::undecided;
  line.estimates[0].seeds_needed = 20;
  line.estimates[1].seeds_needed = 17;
  CHECK(deciding(line) == &line.estimates[2]);  // a million would not do
  test.any = true;
  CHECK(deciding(line) == &line.estimates[1]);  // that with the fewest seeds would suffice
  test.any = false;
  line.estimates[1].leave_undecided("1 of 5 runs diverged");
  CHECK(deciding(line) == &line.estimates[1]);
}

TEST_CASE("ledger: timings are ratios of two numbers of each line") {
  const MadeUpClaim made(
      R"({"kind": "timing", "of": "rows[norm=b, n=2].ms", "over": "rows[norm=a, n=2].ms", "range": [null, 1]})",
      R"("scale": "timing", "bench": ["norms"], "repeat": 3, )");
  CHECK(made.line().verdict == Verdict::not_run);
  std::ofstream file(made.folder / "times.jsonl");
  for (const double ms : {1.0, 1.1, 0.9})
    file << nlohmann::json{{"rows",
                            {{{"norm", "a"}, {"n", 2}, {"ms", 2 * ms}},
                             {{"norm", "b"}, {"n", 1}, {"ms", 9}},
                             {{"norm", "b"}, {"n", 2}, {"ms", ms}}}}}
         << "\n";
  file.close();
  const LedgerLine line = made.line();
  CHECK(line.estimates[0].value == doctest::Approx(0.5));
  CHECK(line.verdict == Verdict::holds);
  CHECK(line.done == 3);
  std::ofstream(made.folder / "times.jsonl", std::ios::app) << "{\"rows\": []}\n";
  CHECK_THROWS_WITH_AS(made.line(), doctest::Contains("times.jsonl:4: has no time rows[norm=b, n=2].ms"), InputError);
}

TEST_CASE("ledger: timings are judged with the repetitions that are there, and one that was removed is missed") {
  const MadeUpClaim made(R"({"kind": "timing", "of": "b", "over": "a", "range": [null, 1]})",
                         R"("scale": "timing", "bench": ["norms"], "repeat": 3, )");
  const auto write = [&](int removed) {
    std::ofstream file(made.folder / "times.jsonl");
    for (int i = 1; i <= 9; ++i)
      if (i != removed) file << nlohmann::json{{"a", 2}, {"b", 1 + 0.01 * i}, {"repetition", i}} << "\n";
  };
  write(0);
  CHECK(made.line().verdict == Verdict::holds);
  write(4);
  const LedgerLine line = made.line();
  CHECK(line.verdict == Verdict::holds);
  CHECK(line.estimates[0].n == 8);
  CHECK(has(ledger_text({line}, 80, true), "Runs: 8 of 9 repetitions in times.jsonl"));
}

TEST_CASE("ledger: timings on a GPU have a line of their own, which is not counted") {
  const MadeUpClaim made(R"({"kind": "timing", "of": "runs[n=2].ms", "over": "runs[n=1].ms", "range": [null, 1]})",
                         R"("scale": "timing", "bench": ["step", "step"], "repeat": 2, )");
  const auto write = [&](const std::vector<std::string>& devices) {
    std::ofstream file(made.folder / "times.jsonl");
    double ms = 1;
    for (const std::string& device : devices)
      file << nlohmann::json{{"runs",
                              {{{"n", 1}, {"device", device}, {"ms", 3}},
                               {{"n", 2}, {"device", device}, {"ms", ms += 0.01}}}}}
           << "\n";
  };
  write({"cpu", "cpu"});
  const LedgerLine cpu = made.line();
  CHECK(cpu.device == "");
  write({"NVIDIA H200", "NVIDIA H200"});
  const LedgerLine gpu = made.line();
  CHECK(gpu.device == "NVIDIA H200");
  const std::string text = ledger_text({cpu, gpu}, 200, true);
  CHECK(has(text, "Claim 7 on NVIDIA H200: It helps."));
  CHECK(has(text, "\n7 GPU  It helps."));
  CHECK(has(text, "1 claim: 1 holds here"));
  CHECK(has(text, "Timings on a GPU are listed but not counted."));
  CHECK_FALSE(has(ledger_text({cpu}, 200, true), "on a GPU"));
  CHECK(ledger_json({gpu})["claims"][0]["device"] == "NVIDIA H200");
  std::ofstream(made.folder / "times.jsonl")
      << R"({"device": 5, "runs": [{"n": 1, "device": 5, "ms": 3}, {"n": 2, "ms": 1}]})"
      << "\n";
  CHECK(made.line().device == "");
  write({"cpu", "NVIDIA H200"});
  CHECK_THROWS_WITH_AS(made.line(), doctest::Contains("times.jsonl:2: timed on NVIDIA H200, but earlier lines are of"),
                       InputError);
}

TEST_CASE("ledger: undecided timings name the repetitions that would decide them") {
  const MadeUpClaim made(R"({"kind": "timing", "of": "b", "over": "a", "range": [null, 1]})",
                         R"("scale": "timing", "bench": ["norms"], "repeat": 3, )");
  std::ofstream file(made.folder / "times.jsonl");
  for (const double ms : {1.0, 1.2, 0.9}) file << nlohmann::json{{"a", 1}, {"b", ms}} << "\n";
  file.close();
  const LedgerLine line = made.line();
  REQUIRE(line.estimates[0].seeds_needed.has_value());
  CHECK(has(ledger_text({line}, 200, true),
            concat("undecided: about ", *line.estimates[0].seeds_needed, " repetitions would decide it")));
  std::ofstream on_the_bound(made.folder / "times.jsonl");
  for (const double ms : {0.5, 2.0}) on_the_bound << nlohmann::json{{"a", 1}, {"b", ms}} << "\n";
  on_the_bound.close();
  LedgerLine undecided = made.line();
  CHECK(has(ledger_text({undecided}, 200, true), "undecided: a million repetitions would not decide it"));
}

TEST_CASE("ledger: a claim of the published size only is not judged") {
  const MadeUpClaim made(kGain);
  Experiment experiment = made.experiment;
  experiment.claim.tests.clear();
  experiment.claim.scale = ClaimScale::paper;
  const LedgerLine line = judge_claim(experiment, made.store, "none");
  CHECK(line.verdict == Verdict::paper_scale);
  CHECK(words_of(line.verdict) == "needs ImageNet");
}

TEST_CASE("ledger: contrasts compare the rows of two filters by seed") {
  const auto judged = [](const std::string& rows) {
    const MadeUpClaim made(R"({"kind": "contrast", )" + rows + R"(, "range": [0, null]})");
    made.finish(0.05);
    return made.line();
  };
  const LedgerLine line = judged(R"("where": "placement = dpn", "against": "placement = pre_pre")");
  CHECK(line.estimates[0].label == "dpn minus pre_pre");
  CHECK(line.estimates[0].unit == "points");
  CHECK(line.estimates[0].value == doctest::Approx(5 + 100 * (0.003 - 0 + 0 - 0.002 + 0.002 - 0.004) / 3));
  CHECK(line.verdict == Verdict::holds);
  CHECK(judged(R"("where": "placement = pre_pre", "against": "placement = dpn")").verdict == Verdict::fails);
  CHECK_THROWS_WITH_AS(judged(R"("where": "epochs = 1", "against": "placement = dpn")"),
                       doctest::Contains("select 2 and 1 rows; expected equally many"), InputError);
  CHECK_THROWS_WITH_AS(judged(R"("where": "placement = dpn", "against": "placement = dpn")"),
                       doctest::Contains("compares dpn with dpn, the same row"), InputError);
}

TEST_CASE("ledger: rows are not chosen by their results, and a metric that nobody has is named with its claim") {
  const auto judged = [](const std::string& keys) {
    const MadeUpClaim made(R"({"kind": "gain", "range": [0, null], )" + keys + "}");
    made.finish(0.05);
    return made.line();
  };
  CHECK_THROWS_WITH_AS(judged(R"("where": "gain > 1")"), doctest::Contains("unknown axis"), InputError);
  CHECK_THROWS_WITH_AS(judged(R"("metric": "eval/foo")"), doctest::Contains("07-it-helps.json:"), InputError);
}

TEST_CASE("ledger: a trend correlates measurements with their order in the network") {
  MadeUpClaim made(
      R"({"kind": "trend", "of": "probe/blocks.*", "where": "placement = dpn", "last": 1, "range": [0, null]})");
  // 2 comes before 10: as words the order would be 1, 10, 2.
  const double values[3][3] = {{1, 2, 3}, {1, 3, 2}, {3, 2, 1}};
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    made.measured[seed] = {
        {"probe/blocks.1", values[seed][0]}, {"probe/blocks.2", values[seed][1]}, {"probe/blocks.10", values[seed][2]}};
  made.finish(0);
  const LedgerLine line = made.line();
  CHECK(line.estimates[0].value == doctest::Approx((1 + 0.5 - 1) / 3));
  CHECK(line.estimates[0].values.at(1) == doctest::Approx(0.5));
  CHECK(line.estimates[0].low == -1);
  CHECK(line.verdict == Verdict::undecided);
}

TEST_CASE("ledger: a probe may compare measurements of two names") {
  const MadeUpClaim made(R"({"kind": "probe", "of": "eval/loss", "where": "placement = dpn",
                             "against": "placement = pre_pre", "against_of": "train/loss", "last": 1, "range": [0.1, 1]})");
  made.finish(0);
  const LedgerLine line = made.line();
  CHECK(line.estimates[0].label == "eval/loss of dpn against train/loss of pre_pre");
  CHECK(line.estimates[0].value == doctest::Approx(0.4 / std::cbrt(1.0 * 1.02 * 1.04)));
  ClaimTest test;
  test.kind = ClaimTestKind::probe;
  test.where = "a = 1", test.against = "a = 2", test.of = "x", test.over = "y";
  test.against_of = "z";
  test.range.low = 2;
  CHECK(test_sentence(test) == "x over y of a = 1, divided by z over y of a = 2, is at least 2 x.");
}

namespace {

/// Gains of 2 points after the first of two lengths and of `last` after the second, of 5 seeds with noise below 0.2.
LedgerLine by_length(const std::string& epochs, double last, const std::string& margin) {
  TemporaryFolder folder;
  const ResultStore store(folder / "out");
  const Experiment experiment = experiment_of(folder,
                                              R"({
      "dataset": {"name": "shapes"},
      "model": {"kind": "vit", "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
      "train": {"batch_size": 4, "optimizer": {"lr": 0.01}},
      "sweep": {"train.epochs": )" + epochs +
                                                  R"(, "model.placement": ["pre_pre", "dpn"]},
      "baseline": {"model.placement": "pre_pre"}, "seeds": 5,
      "claim": {"source": "A paper, Table 1", "says": "It helps.", "scale": "twin", "tests": [
        {"kind": "gain", "where": "placement = dpn", )" +
                                                  margin + R"("range": [0, null]}]}})",
                                              "07-it-helps.json");
  for (const Trial& trial : experiment.trials) {
    const double noise = 0.001 * double((7 * trial.config.seed + 5 * trial.row) % 3);
    const double gain = trial.row % 2 == 0 ? 0 : trial.row >= 2 ? last : 0.02;
    fake_done(store, trial, 0.5 + noise + gain);
  }
  return judge_claim(experiment, store, "none");
}

}  // namespace

TEST_CASE("ledger: a claim ends where twice the training changes its gain by less than the margin") {
  const LedgerLine steady = by_length("[2, 4]", 0.021, R"("margin": 1, )");
  CHECK(steady.ends);
  REQUIRE(steady.doublings.size() == 1);
  CHECK(steady.doublings[0].from == "2 epochs");
  CHECK(steady.doublings[0].to == "4 epochs");
  CHECK(has(where_it_ends(steady), "as here"));
  CHECK_FALSE(by_length("[2, 4]", 0.021, R"("margin": 0.1, )").ends);  // too noisy for this margin
  CHECK_FALSE(by_length("[2, 4]", 0.021, "").ends);                    // no margin
  CHECK_FALSE(by_length("[2, 6]", 0.021, R"("margin": 1, )").ends);    // not twice
  const LedgerLine open = by_length("[2, 4]", 0.0005, R"("margin": 10, )");
  CHECK(open.doublings[0].within);
  CHECK(open.verdict == Verdict::undecided);
  CHECK_FALSE(open.ends);
  const LedgerLine turned = by_length("[2, 4]", -0.03, R"("margin": 1, )");
  CHECK_FALSE(turned.ends);
  REQUIRE(turned.by_length.size() == 2);
  CHECK(turned.by_length[0] == std::pair(std::string("2 epochs"), Verdict::holds));
  CHECK(turned.by_length[1] == std::pair(std::string("4 epochs"), Verdict::fails));
  CHECK(has(where_it_ends(turned), "at this length only; 2 epochs holds here, 4 epochs fails here; "));
  CHECK(ledger_json({turned})["claims"][0]["lengths"]["4 epochs"] == "fails here");
}

TEST_CASE("ledger: rows are named by what tells them apart") {
  TemporaryFolder folder;
  const auto names = [&](const std::string& sweep) {
    return row_names(experiment_of(
        folder, R"({"dataset": "shapes", "train": {"steps": 5}, "seeds": 1, "sweep": )" + sweep + "}", "names.json"));
  };
  CHECK(names(R"({"model.patch_size": [8, 4], "model.placement": ["pre_pre", "dpn"]})") ==
        std::vector<std::string>{"pre_pre, patch_size 8", "dpn, patch_size 8", "pre_pre, patch_size 4",
                                 "dpn, patch_size 4"});
  CHECK(names(R"([{"model.embed_dim,model.num_heads": [[64, 2], [128, 4]]}, {"train.steps": [9]}])") ==
        std::vector<std::string>{"embed_dim 64", "embed_dim 128", "steps 9"});
  CHECK(names(R"({"model.embed_dim,model.num_heads": [[64, 2], [128, 4]]})") ==
        std::vector<std::string>{"embed_dim 64", "embed_dim 128"});
  CHECK(
      names(
          R"({"train.augment.randaugment": [{"dialect": "timm", "magnitude": 9, "interpolation": "bicubic"}, {"dialect": "torchvision"}]})") ==
      std::vector<std::string>{"randaugment timm", "randaugment torchvision"});
}

TEST_CASE("ledger: a timing may be a sum of numbers") {
  const nlohmann::json document{{"rows", {{{"norm", "a"}, {"ms", 3}}, {{"norm", "BN+FFNBN*"}, {"ms", 5}}}}, {"all", 7}};
  CHECK(timing_value(document, "all") == 7);
  CHECK(timing_value(document, "rows[norm=BN+FFNBN*].ms") == 5);
  CHECK(timing_value(document, "2*rows[norm=a].ms + 0.5*rows[norm=BN+FFNBN*].ms + all") == 15.5);
  CHECK_FALSE(timing_value(document, "2*rows[norm=b].ms + all").has_value());
}
