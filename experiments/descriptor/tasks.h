// What a descriptor may ask of each task: its metrics, and the settings that it can use.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "experiments/descriptor/trial_checks.h"
#include "nn/task.h"

namespace normlab {

struct TaskRules {
  Task task;
  /// Measured on each slice, without its prefix "eval/" or "minival/". The first one is the result; "loss" is the last.
  std::span<const std::string_view> metrics;
  /// Reports settings that are right for other tasks only.
  void (*check)(const TrialConfig& trial, const Report& report);
};
const TaskRules& rules_of(Task task);

/// Whether values of a metric are shares, shown in %: accuracies, mean IoUs and recalls.
inline bool is_share(std::string_view metric) {
  return metric.ends_with("accuracy") || metric.ends_with("miou") || metric.ends_with("recall1");
}
/// `metric`, which is "eval/accuracy" if the user gave none: that stands for the result of any task.
std::string metric_for(Task task, const std::string& metric);

}  // namespace normlab
