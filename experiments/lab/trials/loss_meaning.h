// What the losses of a result mean. Older versions measured two kinds of them otherwise.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/trials/trial_result.h"

namespace normlab {

/// Provenance of a result: its evaluation losses are measured against the labels themselves, whatever its training
/// smooths or mixes. Those of older versions contain the training's label smoothing.
inline constexpr const char *kEvalLossMeaning = "eval_loss", *kPlainLoss = "plain";
/// Provenance of a result: its train/loss is the mean of its last 50 steps, or of all if there are fewer. That of older
/// versions is the mean since the metrics line before the last.
inline constexpr const char *kTrainLossMeaning = "train_loss", *kLastStepsLoss = "last 50 steps";

/// "eval/loss", "minival/ema_loss", "without_block.loss/3".
bool is_evaluation_loss(std::string_view metric);

/// The label smoothing that the result's evaluation losses contain; 0: they are plain.
double smoothing_in_losses(const TrialResult& result, const TrialConfig& config);

/// Whether its train/loss is that of kLastStepsLoss.
bool averages_last_steps(const TrialResult& result);

/// Removes the losses that results or lines of an older version measure otherwise, and the numbers that it does not
/// record.
void remove_unlike_older(std::map<std::string, double>& metrics, const TrialConfig& config);

}  // namespace normlab
