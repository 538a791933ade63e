#include "experiments/ledger/ledger.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "experiments/base/text_layout.h"
#include "experiments/ledger/page.h"
#include "experiments/sweep/sweep_table.h"
#include "tests/experiments/base/text.h"
#include "tests/experiments/report/fake_results.h"

using namespace normlab;

namespace {

/// A sweep of two placements, 3 seeds, with made-up results.
struct MadeUpClaim {
  explicit MadeUpClaim(const std::string& tests, const std::string& more = R"("scale": "twin",)")
      : store(folder / "out") {
    experiment = experiment_of(folder,
                               R"({
      "dataset": {"name": "shapes"},
      "model": {"kind": "vit", "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
      "train": {"batch_size": 4, "optimizer": {"lr": 0.01}},
      "sweep": {"train.epochs": [1], "model.placement": ["pre_pre", "dpn"]},
      "baseline": {"model.placement": "pre_pre"}, "seeds": 3,
      "claim": {"source": "A paper, Table 1", "says": "It helps.", "printed": "+2", )" +
                                   more + "\"tests\": [" + tests + "]}}",
                               "07-it-helps.json");
  }
  /// `probes`: a measurement "probe/x" of dpn by seed. `copy`: jpeg_copy() of the data.
  void finish(double gain, const std::map<std::uint64_t, double>& probes = {}, const std::string& copy = "") const {
    for (const Trial& trial : experiment.trials) {
      if (store.finished(trial.id)) continue;
      const double noise = 0.001 * double((7 * trial.config.seed + 3 * trial.row) % 5);
      const double accuracy = 0.5 + noise + (trial.row == 1 ? gain : 0);
      fake_metrics(store, trial, accuracy, kFakeEvaluations - 1);
      MetricsLog log(store.trial(trial.id).metrics(1));
      MetricsLine line{45, 0.9, {{"train/loss", 1.2}}};
      if (trial.row == 1 && probes.contains(trial.config.seed)) line.values["probe/x"] = probes.at(trial.config.seed);
      log.append(line);
      log.append({50, 1.0, fake_values(trial, accuracy, kFakeEvaluations)});
      TrialResult result = fake_result(trial, TrialEnd::done, accuracy);
      if (!copy.empty()) result.provenance["jpeg_copy"] = copy;
      store.trial(trial.id).publish_result(result);
    }
  }
  LedgerLine line() const { return judge_claim(experiment, store, folder / "times.jsonl"); }

  TemporaryFolder folder;
  ResultStore store;
  Experiment experiment;
};

const std::string kGain = R"({"kind": "gain", "where": "placement = dpn", "range": [0, null]})";

/// Losses at the ends of 20 equal parts of a training.
std::vector<MetricsLine> curve(double at_80, double at_90) {
  std::vector<MetricsLine> lines;
  for (int k = 1; k <= 20; ++k) {
    const double loss = k <= 16 ? 2.0 : k <= 18 ? at_80 : at_90;
    lines.push_back({.step = k, .progress = k / 20.0, .values = {{"train/loss", loss}}});
  }
  return lines;
}

}  // namespace

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
  CHECK(line.estimates[0].why == "3 of 3 runs of epochs=1, placement=dpn did not measure afv/*");
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
  CHECK(two.estimates[0].why == "1 of 3 runs of epochs=1, placement=dpn did not measure probe/x");
  CHECK(zero.verdict == Verdict::undecided);
  CHECK(zero.estimates[0].why ==
        "1 of 3 runs of epochs=1, placement=dpn measured zero or less as probe/x, which has no logarithm");
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
  CHECK(line.estimates[0].why == "1 of 3 runs of epochs=1, placement=dpn diverged");
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
  line.estimates[1].leave_undecided("1 of 5 runs diverged");
  CHECK(deciding(line) == &line.estimates[1]);
}

TEST_CASE("ledger: a row has finished learning once its loss falls by less than 5% between the last tenths") {
  CHECK(finished_learning(curve(1.0, 0.96)) == true);
  CHECK(finished_learning(curve(1.0, 0.94)) == false);
  CHECK_FALSE(finished_learning({}).has_value());
  const MadeUpClaim made(kGain);
  made.finish(0.05);  // from 1.2 to 1.0
  CHECK(made.line().learning == std::vector<std::string>{"epochs=1, placement=pre_pre", "epochs=1, placement=dpn"});
  CHECK(has(ledger_text({made.line()}, 80), "Where it ends: not decided: epochs=1, placement=pre_pre"));
}

TEST_CASE("ledger: a note names the claims that were judged on a JPEG copy") {
  const MadeUpClaim published(kGain), copy(kGain);
  published.finish(0.05);
  copy.finish(0.05, {}, "cifar10 as JPEG, quality 75");
  CHECK(!has(ledger_text({published.line()}, 80), "Data of"));
  CHECK(has(ledger_text({published.line(), copy.line()}, 80),
            "Data of 1 claim: cifar10 as JPEG, quality 75: not the published pixels."));
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

TEST_CASE("ledger: a repetition that was removed from a file is missed") {
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
  CHECK(line.verdict == Verdict::not_run);
  CHECK(has(ledger_text({line}, 80), "Found: 8 of 9 repetitions ended"));
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
  const std::string text = ledger_text({cpu, gpu}, 200);
  CHECK(has(text, " on NVIDIA H200 holds here"));
  CHECK(has(text, "1 claim: 1 holds here"));
  CHECK(has(text, "Timings on a GPU are listed but not counted."));
  CHECK_FALSE(has(ledger_text({cpu}, 200), "on a GPU"));
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
  CHECK(has(ledger_text({line}, 200),
            concat("undecided: about ", *line.estimates[0].seeds_needed, " repetitions would decide it")));
  std::ofstream on_the_bound(made.folder / "times.jsonl");
  for (const double ms : {0.5, 2.0}) on_the_bound << nlohmann::json{{"a", 1}, {"b", ms}} << "\n";
  on_the_bound.close();
  LedgerLine undecided = made.line();
  undecided.verdict = Verdict::undecided;  // two of three repetitions
  CHECK(has(ledger_text({undecided}, 200), "undecided: a million repetitions would not decide it"));
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

TEST_CASE("ledger: text, Markdown, HTML and JSON say the same") {
  const MadeUpClaim made(kGain);
  made.finish(-0.05);
  LedgerLine line = made.line();
  line.command = "normlab run 07-it-helps.json";
  line.claim.scale_note = "Too small | too short.";
  const std::string estimate = estimate_text(line.estimates[0]);
  CHECK(estimate.starts_with("-5"));
  for (const std::string& text : {ledger_text({line}, 60), ledger_markdown({line}), ledger_html({line})}) {
    CAPTURE(text);
    for (const std::string& part : {std::string("fails here"), estimate, line.command, std::string("A paper, Table 1")})
      CHECK(has(text, part));
    CHECK(has(text, "Claim 7 fails here. Too small | too short."));
  }
  std::istringstream rows(ledger_text({line}, 60));
  for (std::string row; std::getline(rows, row);) CHECK(display_width(row) <= 60);
  const auto json = ledger_json({line});
  REQUIRE(json["claims"].size() == 1);
  CHECK(json["claims"][0]["verdict"] == "fails here");
  CHECK(json["claims"][0]["estimates"][0]["value"].get<double>() == line.estimates[0].value);
  line.verdict = Verdict::holds;
  CHECK(has(ledger_text({line}, 60), "Claim 7 holds here. Too small | too short."));
  line.claim.scale_note.clear();
  CHECK_FALSE(has(ledger_text({line}, 60), "Claim 7"));
}

TEST_CASE("ledger: seeds that were raised after a verdict are told with the claim") {
  const MadeUpClaim made(kGain);
  made.finish(0.05);
  CHECK(made.line().raised_seeds.empty());
  made.store.write_plan(made.experiment.stem, "{}");
  REQUIRE(note_tabled_seeds(made.experiment, made.store));
  Experiment more = made.experiment;
  for (Cell& row : more.rows) {
    row.trials.push_back(more.trials.size());
    Trial trial = more.trials[row.trials.front()];
    trial.config.seed = 3;
    trial.id.back() = trial.id.back() == '0' ? '1' : '0';
    more.trials.push_back(trial);
  }
  const LedgerLine line = judge_claim(more, made.store, "none");
  CHECK(has(line.raised_seeds, "Seeds were raised once after results had been read (with 3; now 4)"));
  CHECK(has(ledger_text({line}, 200), "Claim 7: Seeds were raised once"));
}

TEST_CASE("ledger: an interval of a single value is printed, a missing one is not") {
  LedgerLine line;
  line.estimates = {{.label = "best rate", .unit = "", .n = 5, .verdict = Verdict::holds},
                    {.label = "one pair", .unit = "points", .value = 3, .n = 1, .verdict = Verdict::undecided}};
  CHECK(estimate_text(line.estimates[0]) == "0.00 [0.00, 0.00]");
  CHECK(estimate_text(line.estimates[1]) == "-");
  const auto json = ledger_json({line})["claims"][0]["estimates"];
  CHECK(json[0].value("low", 1.0) == 0.0);
  CHECK_FALSE(json[1].contains("value"));
}
