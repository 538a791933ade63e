// Rules that end a training before its last step, and the reasons for divergence. The rules' states are stored in the
// checkpoint, so a resumed training ends at the same step as an uninterrupted one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "autograd/tape.h"
#include "experiments/lab/descriptor/config.h"
#include "nn/training/nonfinite.h"

namespace normlab {

/// Why a training diverged, as in TrialResult.
struct Divergence {
  std::string rule;
  std::optional<std::string> site;
  double value;
  std::string message;  // without the step
};
/// For a step with a loss or gradient that is not finite; `first` tells where it began.
Divergence nonfinite(double loss, const NonFinite& first);
/// For an evaluation without finite results.
Divergence nonfinite(const NonFiniteError& error);

/// The collapse rule, defined at TrainConfig::collapse_steps.
class CollapseWatch {
 public:
  static constexpr std::int64_t kWindow = 50;  // steps
  CollapseWatch(std::int64_t collapse_steps, std::int64_t warmup_steps);

  /// Takes the loss of the next step. True if it completes a collapse.
  bool add(double loss);
  /// Valid once add() returned true.
  Divergence divergence() const;

  /// Everything that add() changes, exactly; set_state() restores it. InputError for a text that state()
  /// does not write.
  std::string state() const;
  void set_state(const std::string& text);

 private:
  std::int64_t limit_, window_, level_end_;  // steps; the level is the mean over level_end_ - window_ to level_end_
  std::int64_t steps_ = 0, count_ = 0, above_ = 0;
  double sum_ = 0.0, mean_ = 0.0;  // sum_: of this window; mean_: of the last complete one
  std::optional<double> level_;    // mean over the window at the end of warm-up
};

/// The rule of TrainConfig::early_stop.
class EarlyStop {
 public:
  explicit EarlyStop(const EarlyStopConfig& config);
  bool active() const { return !config_.metric.empty(); }
  const std::string& metric() const { return config_.metric; }
  /// Takes the metric at the next evaluation.
  void add(double value);
  /// True once `patience` successive evaluations were no better than the best before them.
  bool triggered() const { return active() && since_best_ >= config_.patience; }
  /// "minival/accuracy has not risen by more than 0.01 for 3 evaluations"; empty without a rule.
  std::string words() const;

  /// As for CollapseWatch.
  std::string state() const;
  void set_state(const std::string& text);

 private:
  EarlyStopConfig config_;
  bool higher_;
  std::optional<double> best_;
  std::int64_t since_best_ = 0;
};

}  // namespace normlab
