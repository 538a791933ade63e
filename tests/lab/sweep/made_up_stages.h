// Results and notes of stages, made up for tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/lab/sweep/stages.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

inline void finish(const ResultStore& store, const Trial& trial, double accuracy, TrialEnd end = TrialEnd::done) {
  TrialResult result;
  result.id = trial.id;
  result.seed = trial.config.seed;
  result.status = end;
  if (end == TrialEnd::done) result.metrics = {{"eval/accuracy", accuracy}, {"eval/loss", 1 - accuracy}};
  if (end == TrialEnd::diverged) result.diverged_step = 1;
  store.trial(trial.id).publish_result(result);
}

inline std::string all_of(const std::vector<std::string>& notes) {
  std::string out;
  for (const std::string& note : notes) out += note + "\n";
  return out;
}

inline std::size_t count_files(const std::filesystem::path& folder) {
  std::size_t count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) count += entry.is_regular_file();
  return count;
}

}  // namespace normlab
