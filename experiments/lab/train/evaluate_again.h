// Repeats the evaluation of a training from its weights.
#pragma once

#include <map>
#include <string>

#include "core/devices.h"
#include "experiments/lab/data/dataset.h"
#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/trials/trial_result.h"
#include "experiments/lab/weights/convert_files.h"

namespace normlab {

/// Evaluates `file`, which has normlab's names, as in the training of `config`: same slices, transform and precision,
/// and also its averaged weights, if any. Returns "eval/accuracy", "minival/ema_loss" and so on, with the same bits
/// as that training under the same binary; `eval` receives the evaluation slice. InputError for tensors of another
/// network than config.model; NonFiniteError as evaluate_slice().
std::map<std::string, double> evaluate_again(const TrialConfig& config, const WeightFile& file, const DataPair& data,
                                             int threads, Backend& backend, EvaluatedSlice* eval = nullptr);

}  // namespace normlab
