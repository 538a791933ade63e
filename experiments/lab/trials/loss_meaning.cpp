#include "experiments/lab/trials/loss_meaning.h"

namespace normlab {

bool is_evaluation_loss(std::string_view metric) {
  const bool evaluates = metric.starts_with("eval/") || metric.starts_with("minival/");
  return metric.starts_with("without_block.loss/") || (evaluates && metric.ends_with("loss"));
}

double smoothing_in_losses(const TrialResult& result, const TrialConfig& config) {
  return result.stated(kEvalLossMeaning) == nullptr ? config.train.label_smoothing : 0.0;
}

bool averages_last_steps(const TrialResult& result) { return result.stated(kTrainLossMeaning) != nullptr; }

void remove_unlike_older(std::map<std::string, double>& metrics, const TrialConfig& config) {
  for (const char* name : {kTrainLoss, kTrainRate, kGradientNorm}) metrics.erase(name);
  if (config.train.label_smoothing > 0)
    std::erase_if(metrics, [](const auto& metric) { return is_evaluation_loss(metric.first); });
}

}  // namespace normlab
