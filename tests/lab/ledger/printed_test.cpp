#include "experiments/lab/ledger/printed.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "tests/lab/base/text.h"
#include "tests/lab/pictures/fake_results.h"

using namespace normlab;

namespace {

// SciPy, mean and stats.t.ppf(0.975, 4) * s * sqrt(1 + 1/5): 82.6 ±1.30817, and 82.92 ±1.18577.
const std::vector<double> kLast{82.0, 82.4, 82.9, 83.1, 82.6}, kBest{82.3, 82.9, 83.3, 83.2, 82.9};

PrintedLine line_of(double printed, PrintedEvaluation evaluation) {
  PrintedLine line;
  line.number.value = {printed, 1};
  line.number.evaluation = evaluation;
  line.origins.runs = line.origins.done = kLast.size();
  line.last = kLast;
  line.best = kBest;
  return line;
}

/// "below", "open: the last epoch is ...".
std::string judged(PrintedLine line, bool other_images = false) {
  judge_printed(line, other_images);
  return concat(word_of(line.verdict), line.why.empty() ? "" : ": ", line.why);
}
std::string judged(double printed, PrintedEvaluation evaluation) { return judged(line_of(printed, evaluation)); }

/// Two placements with five seeds each; the block "printed" begins in line 2.
struct PrintedSweep {
  explicit PrintedSweep(const std::string& numbers, const std::string& more = "") : store(folder / "out") {
    experiment = experiment_of(folder,
                               R"({"dataset": {"name": "shapes"},
 "printed": {"repository": "someone/vit", "commit": "0123abc", "file": "README.md", )" +
                                   more + R"("differs": ["The rate | differs."], "numbers": [)" + numbers + R"(]},
      "model": {"kind": "vit", "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
      "train": {"batch_size": 4, "optimizer": {"lr": 0.01}, "epochs": 1},
      "sweep": {"model.placement": ["pre_pre", "dpn"]}, "seeds": 5})",
                               "a_vit.json");
  }
  void finish(std::size_t trials, const std::string& copy = "") const {
    for (std::size_t t = 0; t < trials; ++t) {
      const Trial& trial = experiment.trials[t];
      if (store.finished(trial.id)) continue;
      const double less = trial.row == 0 ? 0 : 0.1;
      const TrialFolder trained = store.trial(trial.id);
      std::filesystem::create_directories(trained.metrics(1).parent_path());
      MetricsLog log(trained.metrics(1));
      const double best = kBest[trial.config.seed] / 100 - less, last = kLast[trial.config.seed] / 100 - less;
      auto values = fake_values(trial, best, kFakeEvaluations);
      values["minival/accuracy"] = 0.5;
      log.append({40, 0.8, values});
      values = fake_values(trial, last, kFakeEvaluations);
      values["minival/accuracy"] = 0.6;
      log.append({50, 1.0, values});
      TrialResult result = fake_result(trial, TrialEnd::done, last);
      if (!copy.empty()) result.provenance["jpeg_copy"] = copy;
      trained.publish_result(result);
    }
  }
  PrintedSource source() const {
    PrintedSource judged = judge_printed(experiment, store);
    judged.command = "normlab run a_vit.json";
    return judged;
  }

  TemporaryFolder folder;
  ResultStore store;
  Experiment experiment;
};

const std::string kBoth = R"({"where": "placement = pre_pre", "value": 84.2, "evaluation": "last"},
  {"where": "placement = dpn", "value": 72.9, "evaluation": "unstated"})";

}  // namespace

TEST_CASE("printed: a number is compared with the interval of one run, after the epoch that it is of") {
  using enum PrintedEvaluation;
  for (const PrintedEvaluation evaluation : {last, best, unstated}) {
    CHECK(judged(82.9, evaluation) == "within");
    CHECK(judged(84.2, evaluation) == "below");  // ours is below
    CHECK(judged(81.0, evaluation) == "above");
  }
  CHECK(judged(83.9, last) == "within");  // up to 83.908
  CHECK(judged(84.0, last) == "below");
  CHECK(judged(84.0, best) == "within");  // up to 84.106
  CHECK(judged(81.5, last) == "within");  // from 81.292
  CHECK(judged(81.5, best) == "above");   // from 81.734
}

TEST_CASE("printed: a number whose epoch is not stated is open if the epoch decides") {
  const std::string why = ", and the source does not say which one it prints";
  CHECK(judged(84.0, PrintedEvaluation::unstated) == "open: the last epoch is below, the best within" + why);
  CHECK(judged(81.5, PrintedEvaluation::unstated) == "open: the last epoch is within, the best above" + why);
  PrintedLine line = line_of(84.0, PrintedEvaluation::unstated);
  line.best.resize(3);
  CHECK(judged(line).starts_with("open: 2 of 5 runs without a curve"));
  line.number.evaluation = PrintedEvaluation::last;
  CHECK(judged(line) == "below");
}

TEST_CASE("printed: a number of the epoch that is best on a validation slice is compared with that epoch") {
  const std::string number = R"({"where": "placement = pre_pre", "value": 84.2, "evaluation": "best_minival"})";
  const PrintedSweep without(number);
  CHECK_THROWS_WITH(without.source(), doctest::Contains("\"best_minival\" needs a slice to select by"));
  PrintedSweep sweep(number);
  for (Trial& trial : sweep.experiment.trials) trial.config.dataset.minival = "train[90%:]";
  sweep.finish(5);
  const PrintedLine line = sweep.source().lines.at(0);
  for (std::size_t s = 0; s < kLast.size(); ++s) CHECK(line.best.at(s) == doctest::Approx(kLast[s]));  // not kBest
  CHECK(line.verdict == PrintedVerdict::below);
  CHECK(judged(84.0, PrintedEvaluation::best_minival) == "within");  // as `best`
  sweep.experiment.printed.numbers[0].rerun = Rerun{{{83.0, 1}}, PrintedEvaluation::best, "Its code."};
  CHECK_THROWS_WITH(sweep.source(), doctest::Contains("must both be \"best_minival\", or neither"));
}

TEST_CASE("printed: fewer than five seeds, lost ones, or a wide interval are too noisy") {
  PrintedLine line = line_of(84.2, PrintedEvaluation::last);
  line.last.pop_back();
  line.origins.done = 4;
  CHECK(judged(line) == "too noisy: 4 of 5 seeds");
  line.origins.done = 5;
  CHECK(judged(line) == "too noisy: 4 of 5 seeds, 1 diverged");
  line.origins.runs = line.origins.done = 4;
  CHECK(judged(line) == "too noisy: 4 seeds");
  line = line_of(84.2, PrintedEvaluation::last);
  line.origins.runs = 10;  // an unfinished sweep
  CHECK(judged(line) == "too noisy: 5 of 10 seeds");
  line = line_of(99, PrintedEvaluation::last);
  for (double& value : line.last) value = 82.6 + 1.2 * (value - 82.6);
  CHECK(judged(line) == "too noisy: an interval of ±1.6 points");
  line.number.evaluation = PrintedEvaluation::unstated;
  CHECK(judged(line).starts_with("too noisy"));
  line = line_of(84.2, PrintedEvaluation::last);
  line.origins.done = 0;
  CHECK(judged(line) == "not run");
}

TEST_CASE("printed: results of other images are compared with the source's own code on them") {
  PrintedLine line = line_of(84.2, PrintedEvaluation::last);
  CHECK(judged(line, true) == "other images");
  line.number.rerun = Rerun{{{82.7, 1}}, PrintedEvaluation::last, "Its code."};
  CHECK(judged(line, true) == "within");
  CHECK(judged(line, false) == "below");  // on the same images the printed number counts
  // SciPy: the mean of two runs is expected at 82.6 ±0.99913 after the last epoch, 82.92 ±0.90565 at the best.
  line.number.rerun->values = {{83.4, 1}, {84.0, 1}};
  CHECK(judged(line, true) == "below");
  line.number.rerun->evaluation = PrintedEvaluation::best;
  CHECK(judged(line, true) == "within");
  line.origins.done = 0;
  CHECK(judged(line, true) == "not run");
}

TEST_CASE("printed: the interval shows on which side of it a printed number lies") {
  CHECK(expected_text(kLast, {84.2, 1}) == "82.6 [81.3, 83.9]");
  CHECK(expected_text(kLast, {83.9, 1}) == "82.60 [81.29, 83.91]");
  CHECK(expected_text(kLast, {84.25, 2}) == "82.60 [81.29, 83.91]");
  CHECK(expected_text({82.0}, {84, 0}) == "82.0");
  CHECK(expected_text({}, {84, 0}) == "-");
}

TEST_CASE("printed: results give the last and the best epoch of each run") {
  const PrintedSweep sweep(kBoth);
  PrintedSource source = sweep.source();
  REQUIRE(source.lines.size() == 2);
  CHECK(source.lines[0].verdict == PrintedVerdict::not_run);
  CHECK(source.lines[0].origins.runs == 5);
  sweep.finish(7);
  source = sweep.source();
  CHECK(source.lines[0].verdict == PrintedVerdict::below);
  CHECK(source.lines[1].why == "2 of 5 seeds");
  for (std::size_t s = 0; s < kLast.size(); ++s) {
    CHECK(source.lines[0].last[s] == doctest::Approx(kLast[s]));
    CHECK(source.lines[0].best[s] == doctest::Approx(kBest[s]));
  }
  sweep.finish(10);
  CHECK(sweep.source().lines[1].verdict == PrintedVerdict::within);
}

TEST_CASE("printed: a JPEG copy counts as other images, whatever the descriptor says") {
  const PrintedSweep same(kBoth), other(kBoth, R"("images": "other", "images_note": "Redrawn.", )");
  same.finish(5, "cifar10 as JPEG, quality 75");
  other.finish(5);
  CHECK(same.source().lines[0].verdict == PrintedVerdict::other_images);
  CHECK(same.source().other_images(same.source().lines[0]) == "cifar10 as JPEG, quality 75: not the published pixels");
  CHECK(other.source().lines[0].verdict == PrintedVerdict::other_images);
  CHECK(other.source().other_images(other.source().lines[0]) == "Redrawn.");
}

TEST_CASE("printed: a filter must select one row") {
  for (const auto& [where, part] : {std::pair{"placement = post_post", "no row of the sweep matches"},
                                    {"placement = dpn or placement = pre_pre", "\"where\" selects 2 rows"},
                                    {"palcement = dpn", "palcement"}}) {
    const PrintedSweep sweep(concat(R"({"where": ")", where, R"(", "value": 84.2, "evaluation": "last"})"));
    CHECK_THROWS_WITH_AS(sweep.source(), doctest::Contains("a_vit.json:2:"), InputError);
    CHECK_THROWS_WITH_AS(sweep.source(), doctest::Contains("/printed/numbers/0"), InputError);
    CHECK_THROWS_WITH_AS(sweep.source(), doctest::Contains(part), InputError);
  }
}

TEST_CASE("printed: text, Markdown and JSON say the same") {
  const PrintedSweep sweep(
      R"({"where": "placement = pre_pre", "value": 84.2, "evaluation": "last",
          "rerun": {"values": [83.0, 83.4], "evaluation": "last", "how": "Its code on these images."}})",
      R"("images": "other", "images_note": "Redrawn.", )");
  sweep.finish(6);
  const std::vector<PrintedSource> sources{sweep.source()};
  for (const std::string& text : {printed_numbers_text(sources, 400), printed_numbers_markdown(sources)}) {
    CAPTURE(text);
    for (const char* part :
         {"1 printed number of 1 repository: 1 within.", "84.2 last", "83.2 (2)", "82.6 [81.3, 83.9]",
          "82.9 [81.7, 84.1]", "README.md of someone/vit at commit 0123abc", "Other images: Redrawn.",
          "Its code on these images.", "Runs: 5 of 5 runs, trained on a ", "normlab run a_vit.json"})
      CHECK(has(text, part));
  }
  CHECK(has(printed_numbers_text(sources, 400), "The rate | differs."));
  CHECK(has(printed_numbers_text(sources, 400), "The mean of 2 runs is expected at 82.60 ±1.00."));
  CHECK(has(printed_numbers_markdown(sources), "The rate \\| differs."));
  std::istringstream rows(printed_numbers_text(sources, 70));
  for (std::string row; std::getline(rows, row);)
    if (row.starts_with("  ")) CHECK(display_width(row) <= 70);
  const auto json = printed_numbers_json(sources)["printed"];
  REQUIRE(json.size() == 1);
  CHECK(json[0]["verdict"] == "within");
  CHECK(json[0]["last"]["mean"].get<double>() == doctest::Approx(82.6));
  CHECK(json[0]["last"]["high"].get<double>() == doctest::Approx(83.90817419624575));
  CHECK(json[0]["best"]["low"].get<double>() == doctest::Approx(81.73422713397335));
  CHECK(json[0]["rerun"]["values"].size() == 2);
}
