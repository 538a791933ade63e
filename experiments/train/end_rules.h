// Rules that end a training before its last step, and how it is said that one diverged. The rules' states are in the
// checkpoint, so that a resumed training ends where one that never stopped does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "autograd/tape.h"
#include "experiments/descriptor/config.h"
#include "nn/nonfinite.h"

namespace normlab {

/// Why a training diverged, as in TrialResult.
struct Divergence {
  std::string rule;
  std::optional<std::string> site;
  double value;
  std::string message;  // without the step
};
/// Of a step whose loss or gradient was not finite, which began at `first`.
Divergence nonfinite(double loss, const NonFinite& first);
/// Of an evaluation that gives no numbers.
Divergence nonfinite(const NonFiniteError& error);

/// The collapse of TrainConfig::collapse_steps, which says what it is.
class CollapseWatch {
 public:
  static constexpr std::int64_t kWindow = 50;  // steps
  CollapseWatch(std::int64_t collapse_steps, std::int64_t warmup_steps);

  /// The loss of the next step. True where it completes a collapse.
  bool add(double loss);
  /// Once add() was true.
  Divergence divergence() const;

  /// All that add() changes, exact; read back by set_state. InputError for a text that state() does not write.
  std::string state() const;
  void set_state(const std::string& text);

 private:
  std::int64_t limit_, window_, level_end_;  // steps; the level is over level_end_ - window_ to level_end_
  std::int64_t steps_ = 0, count_ = 0, above_ = 0;
  double sum_ = 0.0, mean_ = 0.0;  // of this window; of the last complete one
  std::optional<double> level_;    // mean over the window at the warm-up's end
};

/// The rule of TrainConfig::early_stop.
class EarlyStop {
 public:
  explicit EarlyStop(const EarlyStopConfig& config);
  bool active() const { return !config_.metric.empty(); }
  const std::string& metric() const { return config_.metric; }
  /// The metric at the next evaluation.
  void add(double value);
  /// True once `patience` evaluations in a row were no better than the best before them.
  bool triggered() const { return active() && since_best_ >= config_.patience; }
  /// "minival/accuracy has not risen by more than 0.01 for 3 evaluations"; empty where there is no rule.
  std::string words() const;

  /// As CollapseWatch's.
  std::string state() const;
  void set_state(const std::string& text);

 private:
  EarlyStopConfig config_;
  bool higher_;
  std::optional<double> best_;
  std::int64_t since_best_ = 0;
};

}  // namespace normlab
