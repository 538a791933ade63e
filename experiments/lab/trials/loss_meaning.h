// What the losses of a result mean, of which older versions measured two kinds otherwise, and which results are of data
// sets that are published without loss, but were read as JPEGs.
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

/// Key of a result's provenance: jpeg_copy() of its data. Missing if they are no such copy, and in older results.
inline constexpr const char* kJpegCopy = "jpeg_copy";

/// jpeg_copy() of a result's data, as recorded. Older results do not record it; of these, the hash of the evaluation
/// images tells some. "": not known to be a copy.
std::string jpeg_copy_of(const TrialResult& result);

}  // namespace normlab
