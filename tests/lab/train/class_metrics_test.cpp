// Metrics that evaluations measure on request, in whole trials.
#include "experiments/lab/train/tasks.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/trials/correctness_file.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/trial_files.h"
#include "tests/lab/train/small_trial.h"

using namespace normlab;

namespace {

TrialConfig with_metrics() {
  TrialConfig config = SmallTrial::settings();
  config.eval.metrics = {EvalMetric::balanced_accuracy, EvalMetric::top5_accuracy, EvalMetric::per_class};
  config.eval.train_images = 20;
  config.train.ema.decay = 0.5;
  return config;
}

std::map<std::string, double> without_requested(std::map<std::string, double> metrics) {
  std::erase_if(metrics, [](const auto& metric) { return requested_by(metric.first).has_value(); });
  return metrics;
}

}  // namespace

TEST_CASE("class metrics: they are measured on each slice and change nothing else") {
  const TemporaryFolder out;
  const SmallTrial asked(with_metrics());
  TrialConfig config = with_metrics();
  config.eval.metrics.clear();
  const SmallTrial plain(config);
  CHECK(plain.id == asked.id);
  CHECK(plain.run(out / "plain") == TrialOutcome::done);
  TrialOptions options;
  options.threads = 3;
  CHECK(asked.run(out / "asked", options) == TrialOutcome::done);
  const TrialResult before = *plain.folder(out / "plain").load_result(),
                    result = *asked.folder(out / "asked").load_result();
  CHECK(without_requested(result.metrics) == before.metrics);
  for (const std::string prefix : {"eval/", "eval/ema_", "minival/", "minival/ema_", "train/", "train/ema_"})
    for (const char* name : {"balanced_accuracy", "top5_accuracy"}) CHECK(result.metrics.contains(prefix + name));
  // Its 30 images are 3 of each class, so both means are the same.
  CHECK(result.metrics.at("eval/balanced_accuracy") == doctest::Approx(result.metrics.at("eval/accuracy")));
  CHECK(result.metrics.at("eval/top5_accuracy") >= result.metrics.at("eval/accuracy"));
  double sum = 0;
  for (const std::string& name : asked.data.eval.class_names)
    sum += result.metrics.at("eval/class_accuracy/" + name) * 3;
  CHECK(sum == doctest::Approx(result.metrics.at("eval/accuracy") * 30));
  // The classes' accuracies are written once, at the end.
  const std::vector<MetricsLine> lines = read_metrics(asked.folder(out / "asked").metrics(1));
  REQUIRE(lines.size() == 4);
  for (const MetricsLine& line : lines) {
    CHECK(line.values.contains("minival/balanced_accuracy"));
    CHECK(line.values.contains("eval/class_accuracy/" + asked.data.eval.class_names[0]) == (line.step == 24));
  }
  // What guessing reaches is recorded either way.
  CHECK(result.slices == before.slices);
  const EvaluatedSlice& eval = result.slices.at("eval");
  CHECK(eval.images == 30);
  CHECK(eval.guess.at("accuracy") == 0.1);
  CHECK(eval.guess.at("loss") == doctest::Approx(std::log(10.0)));
  CHECK(result.slices.at("minival").images == 20);
  CHECK(result.slices.at("train").images == 20);
  CHECK(parse_trial_result(write_trial_result(result), "x") == result);
}

TEST_CASE("class metrics: stops, kills and later wishes change no result") {
  const TemporaryFolder out;
  const SmallTrial trial(with_metrics());
  CHECK(trial.run(out / "a") == TrialOutcome::done);
  const TrialResult result = *trial.folder(out / "a").load_result();
  CHECK(trial.run(out / "b", SmallTrial::until(13)) == TrialOutcome::stopped);
  CHECK(trial.run(out / "b") == TrialOutcome::done);
  CHECK(trial.folder(out / "b").load_result()->metrics == result.metrics);
  CHECK(trial.folder(out / "b").load_result()->slices == result.slices);
  remove_file(trial.folder(out / "a").path() / "result.json");
  CHECK(trial.run(out / "a") == TrialOutcome::done);
  CHECK(trial.folder(out / "a").load_result()->metrics == result.metrics);
  // Begun without them, and killed after the last line: it has the metrics of that line.
  TrialConfig config = with_metrics();
  config.eval.metrics.clear();
  const SmallTrial plain(config);
  CHECK(plain.run(out / "c") == TrialOutcome::done);
  remove_file(plain.folder(out / "c").path() / "result.json");
  CHECK(trial.run(out / "c") == TrialOutcome::done);
  const TrialResult late = *trial.folder(out / "c").load_result();
  CHECK(late.metrics == without_requested(result.metrics));
  CHECK_NOTHROW(require_agreement(trial.folder(out / "c"), late));
  CHECK(unmeasured(trial.config, late.metrics) ==
        "eval/balanced_accuracy, eval/top5_accuracy, eval/class_accuracy/CLASS");
  CHECK(unmeasured(trial.config, result.metrics) == "");
  // Begun without them, and resumed with them on the way: the end has them all.
  CHECK(plain.run(out / "d", SmallTrial::until(13)) == TrialOutcome::stopped);
  CHECK(trial.run(out / "d") == TrialOutcome::done);
  CHECK(trial.folder(out / "d").load_result()->metrics == result.metrics);
}

TEST_CASE("class metrics: results of one trial may differ in what was asked for, not in values") {
  TrialResult plain, asked;
  plain.metrics = {{"eval/accuracy", 0.5}, {"eval/loss", 1.0}};
  asked.metrics = plain.metrics;
  asked.metrics["eval/balanced_accuracy"] = 0.4;
  CHECK(counts_instead({asked, true, "b"}, {plain, true, "a"}));
  CHECK(!counts_instead({plain, true, "a"}, {asked, true, "b"}));
  TrialResult other = asked;
  other.metrics["eval/balanced_accuracy"] = 0.3;
  CHECK_THROWS_AS(counts_instead({asked, true, "b"}, {other, true, "c"}), InputError);
  other.metrics["eval/text_recall1"] = 0.3;
  CHECK_THROWS_AS(counts_instead({other, true, "b"}, {plain, true, "c"}), InputError);
}

TEST_CASE("class metrics: names of classes are shown, not obeyed") {
  ClassScores scores(4);
  for (int c = 0; c < 3; ++c) scores.add(c, 0);
  ImageSet images;
  images.class_names = {"a\nb", "a\\nb", "\x1b[2J", "absent"};
  TrialConfig trial;
  trial.eval.metrics = {EvalMetric::per_class};
  const auto metrics = class_metrics(scores, trial, images, "eval/");
  CHECK(metrics == std::map<std::string, double>{{"eval/accuracy", 1.0 / 3},
                                                 {"eval/class_accuracy/a\\nb", 1},
                                                 {"eval/class_accuracy/a\\nb (class 1)", 0},
                                                 {"eval/class_accuracy/\\x1b[2J", 0}});
}
