#include "experiments/lab/train/class_metrics.h"

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/descriptor/metric_names.h"

namespace normlab {

std::map<std::string, double> class_metrics(const ClassScores& scores, const TrialConfig& trial, const ImageSet& images,
                                            const std::string& prefix) {
  std::map<std::string, double> metrics{{prefix + "accuracy", scores.accuracy()}};
  if (measures(trial, EvalMetric::balanced_accuracy))
    metrics[prefix + "balanced_accuracy"] = scores.balanced_accuracy();
  if (measures(trial, EvalMetric::top5_accuracy)) metrics[prefix + "top5_accuracy"] = scores.top5_accuracy();
  if (!measures(trial, EvalMetric::per_class)) return metrics;
  for (std::size_t c = 0; c < images.class_names.size(); ++c) {
    const std::optional<double> accuracy = scores.accuracy_of(c);
    if (!accuracy) continue;
    const std::string name = concat(prefix, "class_accuracy/", visible_line(images.class_names[c]));
    // Two names may look the same once they are spelt out.
    if (!metrics.try_emplace(name, *accuracy).second) metrics[concat(name, " (class ", c, ')')] = *accuracy;
  }
  return metrics;
}

}  // namespace normlab
