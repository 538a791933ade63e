// The evaluation of a training, made again from its weights.
#pragma once

#include <map>
#include <string>

#include "core/devices.h"
#include "experiments/data/dataset.h"
#include "experiments/descriptor/config.h"
#include "experiments/weights/convert_files.h"

namespace normlab {

/// Evaluates `file`, which has our names, as the training of `config` does: its slices, its transform, its precision,
/// and the averaged weights where the file has them. Gives "eval/accuracy", "minival/ema_loss" and the like, with the
/// bits of that training under the same binary. InputError for tensors of another network than config.model;
/// NonFiniteError as evaluate_slice().
std::map<std::string, double> evaluate_again(const TrialConfig& config, const WeightFile& file, const DataPair& data,
                                             int threads, Backend& backend);

}  // namespace normlab
