// What the name of a metric states.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// Whether a metric is the accuracy of one class, "eval/ema_class_accuracy/NAME". The name may contain anything.
inline bool is_class_accuracy(std::string_view metric) {
  return metric.find("/class_accuracy/") != metric.npos || metric.find("/ema_class_accuracy/") != metric.npos;
}
/// Whether values of a metric are shares, shown in %: accuracies, mean IoUs and recalls.
inline bool is_share(std::string_view metric) {
  return is_class_accuracy(metric) || metric.ends_with("accuracy") || metric.ends_with("accuracy_half_width") ||
         metric.ends_with("miou") || metric.ends_with("recall1");
}
/// Whether a smaller value is better.
inline bool is_loss(std::string_view metric) { return metric.ends_with("loss") && !is_class_accuracy(metric); }

/// What a metric's name states: "minival/ema_top5_accuracy" is of slice "minival" and measures "top5_accuracy".
struct MetricName {
  std::string_view slice, measured;
};
MetricName parts_of_metric(std::string_view metric);
/// Whether a training or an evaluation measures a number of this name, such as "eval/5shot_accuracy".
bool is_metric(std::string_view name);
/// The setting in "eval.metrics" that measures this metric; none for metrics that are always measured.
std::optional<EvalMetric> requested_by(std::string_view metric);
/// What the evaluations of a trial measure on request: eval.metrics, and what its early stopping looks at.
bool measures(const TrialConfig& trial, EvalMetric metric);
/// What an evaluation must measure to give these metrics again.
std::vector<EvalMetric> requests_in(const std::map<std::string, double>& metrics);
/// The metrics that eval.metrics of `trial` asks for and `has`, those of its result, lacks: "eval/balanced_accuracy".
std::string unmeasured(const TrialConfig& trial, const std::map<std::string, double>& has);
/// Names for a message: "eval/class_accuracy/CLASS" stands for those of all classes.
std::vector<std::string> short_list(const std::set<std::string>& metrics);

}  // namespace normlab
