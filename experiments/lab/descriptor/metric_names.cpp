#include "experiments/lab/descriptor/metric_names.h"

#include <algorithm>

#include "core/error.h"

namespace normlab {
namespace {

constexpr std::string_view kClassAccuracy = "class_accuracy/";

/// The word of an EvalMetric that a metric's name has after its slice.
std::string_view measured_word(EvalMetric metric) {
  return metric == EvalMetric::per_class ? kClassAccuracy : word_of(metric);
}

}  // namespace

MetricName parts_of_metric(std::string_view metric) {
  const std::size_t slash = metric.find('/');
  if (slash == metric.npos) return {{}, metric};
  std::string_view measured = metric.substr(slash + 1);
  if (constexpr std::string_view kAveraged = "ema_"; measured.starts_with(kAveraged))
    measured.remove_prefix(kAveraged.size());
  return {metric.substr(0, slash), measured};
}

bool is_metric(std::string_view name) {
  constexpr std::string_view kSlices[] = {"eval", "minival", "train"};
  constexpr std::string_view kMeasured[] = {"accuracy",       "loss",          "first_loss",  "miou",
                                            "pixel_accuracy", "image_recall1", "text_recall1"};
  const auto [slice, measured] = parts_of_metric(name);
  if (std::find(std::begin(kSlices), std::end(kSlices), slice) == std::end(kSlices)) return false;
  return std::find(std::begin(kMeasured), std::end(kMeasured), measured) != std::end(kMeasured) || requested_by(name) ||
         (measured.ends_with("shot_accuracy") && measured.find_first_not_of("0123456789") == measured.find("shot_"));
}

std::optional<EvalMetric> requested_by(std::string_view metric) {
  const std::string_view measured = parts_of_metric(metric).measured;
  if (measured.starts_with(kClassAccuracy)) return EvalMetric::per_class;
  EvalMetric found{};
  return find_word(measured, found) && found != EvalMetric::per_class ? std::optional(found) : std::nullopt;
}

bool measures(const TrialConfig& trial, EvalMetric metric) {
  const std::vector<EvalMetric>& metrics = trial.eval.metrics;
  return std::find(metrics.begin(), metrics.end(), metric) != metrics.end() ||
         requested_by(trial.train.early_stop.metric) == metric;
}

std::vector<EvalMetric> requests_in(const std::map<std::string, double>& metrics) {
  std::set<EvalMetric> found;
  for (const auto& [name, value] : metrics)
    if (const auto request = requested_by(name)) found.insert(*request);
  return {found.begin(), found.end()};
}

std::string unmeasured(const TrialConfig& trial, const std::map<std::string, double>& has) {
  std::string out;
  for (const EvalMetric metric : trial.eval.metrics) {
    const std::string name = concat("eval/", measured_word(metric));
    const auto found = has.lower_bound(name);
    if (found == has.end() || !found->first.starts_with(name))
      out += concat(out.empty() ? "" : ", ", name, metric == EvalMetric::per_class ? "CLASS" : "");
  }
  return out;
}

std::vector<std::string> short_list(const std::set<std::string>& metrics) {
  std::set<std::string> names;
  for (const std::string& metric : metrics)
    names.insert(is_class_accuracy(metric)
                     ? concat(metric.substr(0, metric.find(kClassAccuracy) + kClassAccuracy.size()), "CLASS")
                     : metric);
  return {names.begin(), names.end()};
}

}  // namespace normlab
