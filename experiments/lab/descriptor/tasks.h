// What a descriptor may ask of each task: its metrics, and the settings that it can use.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "experiments/lab/descriptor/metric_names.h"
#include "experiments/lab/descriptor/trial_checks.h"
#include "nn/training/task.h"

namespace normlab {

struct TaskRules {
  Task task;
  /// Measured on each slice, without its prefix "eval/" or "minival/". The first one is the result; "loss" is the last.
  std::span<const std::string_view> metrics;
  /// Measured as well if EvalConfig::metrics names them, or if early stopping looks at them.
  std::span<const std::string_view> on_request;
  /// Reports settings that are right for other tasks only.
  void (*check)(const TrialConfig& trial, const Report& report);
};
const TaskRules& rules_of(Task task);

/// `metric`, which is "eval/accuracy" if the user gave none: that stands for the result of any task.
std::string metric_for(Task task, const std::string& metric);

}  // namespace normlab
