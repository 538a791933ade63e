// The fixed transform of a norm of kind `whiten`, computed before the first step.
#pragma once

#include "core/shards.h"
#include "experiments/lab/data/image_set.h"
#include "experiments/lab/descriptor/config.h"
#include "nn/model/parameters.h"

namespace normlab {

/// Sets the weight and bias of a norm of kind `whiten`, if the model has one, from the patches of NormSpec::sample
/// images, evenly spaced in the training slice and prepared as for an evaluation. No seed changes them.
void fit_whitening(const TrialConfig& config, const ImageSet& train, ParameterSet& parameters, ShardPool& pool);

}  // namespace normlab
