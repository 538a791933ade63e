#include "experiments/lab/pictures/curve_data.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "tests/lab/pictures/fake_results.h"

using namespace normlab;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

const char* const kTwoRows = R"({
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
  "train": {"epochs": 4, "batch_size": 20},
  "sweep": {"model.placement": ["pre_pre", "dpn"]},
  "seeds": 3,
  "baseline": {"model.placement": "pre_pre"}
})";

std::string message_of(const ExperimentCurves& curves, const std::string& metric) {
  try {
    require_metric(curves, metric, "--metric");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// A row whose label needs quotes, and one without values.
MetricCurves quoted_curves() {
  MetricCurves curves;
  curves.metric = "train/loss";
  curves.rows = {{0, "a,\"b\"", {{3, TrialState::done, {{10, 0.5}, {20, kNan}}}}, {{10, 0.5, 0.25, 0.75, 2}}},
                 {1, "plain", {}, {}}};
  return curves;
}

}  // namespace

TEST_CASE("curves: a band is over the finite values of each step") {
  const std::vector<SeedCurve> seeds{{0, TrialState::done, {{10, 1.0}, {20, 2.0}, {30, kNan}}},
                                     {1, TrialState::diverged, {{10, 4.0}, {20, kInf}}},
                                     {2, TrialState::done, {{10, 1.0}, {20, 5.0}, {30, -kInf}, {40, 0.1}}}};
  const auto band = seed_band(seeds);
  REQUIRE(band.size() == 3);  // nothing finite at 30
  CHECK(band[0].at == 10);
  CHECK(band[0].mean == doctest::Approx(2));
  CHECK(band[0].low == 1);
  CHECK(band[0].high == 4);
  CHECK(band[0].n == 3);
  CHECK(band[1].mean == doctest::Approx(3.5));
  CHECK(band[1].n == 2);
  CHECK(band[2].at == 40);
  CHECK(band[2].mean == 0.1);
  CHECK(band[2].low == 0.1);
  CHECK(seed_band({}).empty());
}

TEST_CASE("curves: CSV has a line a step, its labels quoted") {
  const MetricCurves curves = quoted_curves();
  CHECK(curves_csv(curves, false) == "row,step,mean,low,high,n\n\"a,\"\"b\"\"\",10,0.5,0.25,0.75,2\n");
}

TEST_CASE("curves: CSV by seed has a line a seed and step") {
  const MetricCurves curves = quoted_curves();
  CHECK(curves_csv(curves, true) == "row,seed,step,value\n\"a,\"\"b\"\"\",3,10,0.5\n\"a,\"\"b\"\"\",3,20,nan\n");
}

TEST_CASE("curves: a curve is that of the attempt that its result names") {
  const TemporaryFolder folder;
  const Experiment experiment = experiment_of(folder, kTwoRows);
  const ResultStore store(folder / "results");
  fake_done(store, experiment.trials[0], 0.8);
  const auto lost = store.trial(experiment.trials[0].id).metrics(2);
  std::filesystem::create_directories(lost.parent_path());
  MetricsLog(lost).append({10, 0.2, {{"eval/accuracy", 0.99}}});
  const ExperimentCurves curves = read_curves(experiment, store, {"eval/accuracy", "train/loss"});
  CHECK(curves.problems.empty());
  REQUIRE(curves.metrics[0].rows[0].seeds.size() == 1);
  CHECK(curves.metrics[0].rows[0].seeds[0].values.at(10) == doctest::Approx(0.8 * (1 - std::exp(-1.0))));
}

TEST_CASE("curves: a row has the curves of its trials with metrics") {
  const TemporaryFolder folder;
  const Experiment experiment = experiment_of(folder, kTwoRows);
  const ResultStore store(folder / "results");
  REQUIRE(experiment.trials.size() == 6);
  fake_done(store, experiment.trials[0], 0.8);
  fake_metrics(store, experiment.trials[1], 0.6, 2);
  fake_diverged(store, experiment.trials[3], 25);
  const ExperimentCurves curves = read_curves(experiment, store, {"eval/accuracy", "train/loss"});
  CHECK(curves.problems.empty());
  CHECK(curves.known == std::vector<std::string>{"eval/accuracy", "eval/loss", "train/loss"});
  const auto& rows = curves.metrics[0].rows;
  REQUIRE(rows.size() == 2);
  REQUIRE(rows[0].seeds.size() == 2);
  CHECK(rows[0].band[0].mean == doctest::Approx(0.7 * (1 - std::exp(-1.0))));
  CHECK(rows[0].band[0].n == 2);
  CHECK(rows[0].band[4].n == 1);
  REQUIRE(rows[1].seeds.size() == 1);
  CHECK(rows[1].seeds[0].state == TrialState::diverged);
  CHECK(std::isnan(curves.metrics[1].rows[1].seeds[0].values.at(25)));
}

TEST_CASE("curves: a damaged file is named, its trial alone left out") {
  const TemporaryFolder folder;
  const Experiment experiment = experiment_of(folder, kTwoRows);
  const ResultStore store(folder / "results");
  for (const Trial& trial : experiment.trials) fake_done(store, trial, 0.5);
  std::ofstream(store.trial(experiment.trials[2].id).metrics(1)) << "{\"step\": oops}\n";
  const ExperimentCurves curves = read_curves(experiment, store, {"eval/accuracy"});
  REQUIRE(curves.problems.size() == 1);
  CHECK(curves.problems[0].trial == experiment.trials[2].label);
  CHECK(curves.problems[0].error.find("metrics.jsonl:1") != std::string::npos);
  CHECK(curves.metrics[0].rows[0].seeds.size() == 2);
}

TEST_CASE("curves: an unknown metric is an error that names the nearest") {
  ExperimentCurves curves;
  CHECK(message_of(curves, "eval/acuracy").empty());  // nothing has run yet, so no metric is known
  curves.known = {"eval/accuracy", "train/loss"};
  CHECK(message_of(curves, "eval/accuracy").empty());
  const std::string message = message_of(curves, "eval/acuracy");
  CHECK(message.find("--metric eval/acuracy") == 0);
  CHECK(message.find("did you mean \"eval/accuracy\"?") != message.npos);
  CHECK(message.find("eval/accuracy, train/loss") != message.npos);
}
