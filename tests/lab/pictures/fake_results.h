// Results on disk without any training.
#pragma once

#include <cmath>
#include <fstream>
#include <limits>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/base/temporary_folder.h"

namespace normlab {

constexpr int kFakeEvaluations = 5;

/// What the k-th evaluation measures, counted from 1; the last one measures `accuracy`.
inline std::map<std::string, double> fake_values(const Trial& trial, double accuracy, int k) {
  return {{"train/loss", 2.5 - 0.3 * k + 0.02 * double(trial.config.seed)},
          {"eval/accuracy", k == kFakeEvaluations ? accuracy : accuracy * (1 - std::exp(-k))},
          {"eval/loss", 2.0 / k}};
}

/// Writes metrics of `evaluations` evaluations, ten steps apart, that rise to `accuracy`, and a loss; no result.
inline void fake_metrics(const ResultStore& store, const Trial& trial, double accuracy,
                         int evaluations = kFakeEvaluations) {
  const TrialFolder folder = store.trial(trial.id);
  std::filesystem::create_directories(folder.metrics(1).parent_path());
  MetricsLog log(folder.metrics(1));
  for (int k = 1; k <= evaluations; ++k)
    log.append({10 * k, double(k) / kFakeEvaluations, fake_values(trial, accuracy, k)});
}

inline TrialResult fake_result(const Trial& trial, TrialEnd end, double accuracy) {
  TrialResult result;
  result.id = trial.id;
  result.status = end;
  result.seed = trial.config.seed;
  result.attempt = 1;
  result.steps = 50;
  if (end == TrialEnd::done) result.metrics = fake_values(trial, accuracy, kFakeEvaluations);
  result.wall_seconds = 12.5;
  result.peak_mb = 321;
  result.images_per_second = 1000;
  result.provenance = {
      {"version", "1a2b3c4"}, {"device", "cpu"}, {"cpu", "a <cpu> & more"}, {"started", "2026-11-21T07:00:00Z"}};
  return result;
}

inline void fake_done(const ResultStore& store, const Trial& trial, double accuracy) {
  fake_metrics(store, trial, accuracy);
  store.trial(trial.id).publish_result(fake_result(trial, TrialEnd::done, accuracy));
}

inline void fake_diverged(const ResultStore& store, const Trial& trial, std::int64_t step) {
  fake_metrics(store, trial, 0.2, 2);
  {
    MetricsLog log(store.trial(trial.id).metrics(1));
    log.append({step, 0.5, {{"train/loss", std::numeric_limits<double>::quiet_NaN()}}});
  }
  TrialResult result = fake_result(trial, TrialEnd::diverged, 0.1);
  result.diverged_step = result.steps = step;
  result.diverged_site = "blocks.1.mlp.pre";
  result.diverged_rule = "nonfinite";
  result.message = "the loss is not finite";
  store.trial(trial.id).publish_result(result);
}

inline void fake_failed(const ResultStore& store, const Trial& trial, const std::string& message) {
  TrialResult result = fake_result(trial, TrialEnd::failed, 0);
  result.message = message;
  store.trial(trial.id).publish_result(result);
}

/// A descriptor of `text`, in `folder`.
inline Experiment experiment_of(const TemporaryFolder& folder, const std::string& text,
                                const std::string& name = "small.json") {
  std::ofstream(folder / name) << text;
  return load_experiment(folder / name);
}

}  // namespace normlab
