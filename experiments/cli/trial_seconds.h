// How long trials take, for `plan` and `claims --plan`.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "experiments/cli/descriptor_options.h"
#include "experiments/train/cost.h"
#include "experiments/train/step_time.h"

namespace normlab {

/// "3.1 hours", "12 minutes", "less than a second".
std::string long_duration_text(double seconds);

/// The cost of trials. A positive `gflops` (of one core) replaces the measurement.
class TrialSeconds {
 public:
  /// Of these trials of the experiment, by index.
  TrialSeconds(const Experiment& experiment, const std::vector<std::size_t>& trials, const DescriptorOptions& options,
               double gflops);
  TrialCost cost(const TrialConfig& config) { return trial_cost(config, sizes(config.dataset)); }
  /// On one core.
  double seconds(std::size_t trial, const TrialCost& cost) const { return times_.at(trial).seconds(cost); }
  bool timed(std::size_t trial) const { return times_.contains(trial); }

 private:
  SliceSizes sizes(const DatasetConfig& dataset);

  const DescriptorOptions& options_;
  std::map<std::size_t, StepTime> times_;  // by trial
  std::vector<std::pair<DatasetConfig, SliceSizes>> sizes_;
};

}  // namespace normlab
