// How long trials take, for `plan` and `claims --plan`.
#pragma once

#include <array>
#include <filesystem>
#include <list>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "experiments/lab/data/dataset.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/descriptor/trials_ahead.h"
#include "experiments/lab/train/cost.h"
#include "experiments/lab/train/step_time.h"

namespace normlab {

/// "3.1 hours", "12 minutes", "less than a second".
std::string long_duration_text(double seconds);

/// "18 trials, 9 of them to tune", "6 to 30 trials": those that are known and those that follow.
std::string trials_words(const Experiment& experiment, const TrialsAhead& ahead);

/// What a user should know where a step in "bf16" takes longer than in "fp32", as on CPUs whose instructions for bf16
/// multiply no faster. "" where it takes at most 1.05 times as long.
std::string slow_bf16_words(double times_fp32);

/// The cost of trials. A positive `gflops` (of one core) replaces the measurement.
class TrialSeconds {
 public:
  /// Of these trials of the experiment, by index. InputError for one that `run` would refuse for its data, if they are
  /// here, or for its number of images.
  TrialSeconds(const Experiment& experiment, const std::vector<std::size_t>& trials,
               std::optional<std::filesystem::path> data, double gflops);
  TrialCost cost(const TrialConfig& config) { return trial_cost(config, slices(config.dataset).sizes); }
  /// On one core.
  double seconds(std::size_t trial, const TrialCost& cost) const { return times_.at(trial).seconds(cost); }
  bool timed(std::size_t trial) const { return times_.contains(trial); }
  const StepTime& time(std::size_t trial) const { return times_.at(trial); }
  /// Whether no trial may decode photographs in its steps for a time that is not counted.
  bool decoding_counted() const { return decoding_counted_; }
  /// Where the times come from: "from measured steps of each network", or of some, whose times others are scaled from.
  std::string origin() const;
  /// What else used the machine while the times were measured: "other processes used 1.3 cores". "" if nothing did, or
  /// if nothing was measured.
  const std::string& disturbance() const { return disturbance_; }
  /// A step of the largest network in "bf16" as a multiple of its time in "fp32". 0 without one, or if both could not be
  /// measured.
  double bf16_times_fp32() const { return bf16_times_fp32_; }
  /// Those of the data that are here.
  const FoundSlices& slices(const DatasetConfig& dataset);

 private:
  void add_decoding(const TrialConfig& config, StepTime& time, bool measure);

  /// What the time of making an image depends on.
  using MakingKey = std::tuple<DatasetConfig, AugmentConfig, EvalTransformConfig, std::array<std::int64_t, 2>>;

  std::optional<std::filesystem::path> data_;
  std::map<std::size_t, StepTime> times_;  // by trial
  std::list<std::pair<DatasetConfig, FoundSlices>> slices_;
  std::vector<std::pair<MakingKey, std::optional<MakingTime>>> making_;
  bool decoding_counted_ = true;
  bool some_measured_ = false, all_measured_ = true;
  std::string disturbance_;
  double bf16_times_fp32_ = 0;
};

}  // namespace normlab
