// Rules that end a training before its last step. Their states are in the checkpoint, so that a resumed training ends
// where one that never stopped does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/descriptor/config.h"

namespace normlab {

/// The collapse of TrainConfig::collapse_steps, which says what it is.
class CollapseWatch {
 public:
  static constexpr std::int64_t kWindow = 50;  // steps
  CollapseWatch(std::int64_t collapse_steps, std::int64_t warmup_steps);

  /// The loss of the next step. True where it completes a collapse.
  bool add(double loss);
  /// Of the last complete window.
  double mean() const { return mean_; }
  /// Mean over the window at the warm-up's end; none before.
  std::optional<double> level() const { return level_; }
  std::int64_t window() const { return window_; }

  /// All that add() changes, exact; read back by set_state. InputError for a text that state() does not write.
  std::string state() const;
  void set_state(const std::string& text);

 private:
  std::int64_t limit_, window_, level_end_;  // steps; the level is over level_end_ - window_ to level_end_
  std::int64_t steps_ = 0, count_ = 0, above_ = 0;
  double sum_ = 0.0, mean_ = 0.0;
  std::optional<double> level_;
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
  bool struck() const { return active() && since_best_ >= config_.patience; }
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
