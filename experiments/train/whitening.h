// The fixed transform of a norm of kind `whiten`, computed before the first step.
#pragma once

#include "core/shards.h"
#include "experiments/data/image_set.h"
#include "experiments/descriptor/config.h"
#include "nn/parameters.h"

namespace normlab {

/// Whether the model has a norm of kind `whiten`.
bool whitens(const ModelConfig& model);

/// Sets its weight and bias from the patches of the first NormSpec::sample images of the training slice, or of all if
/// there are fewer, prepared as for an evaluation. No seed changes them.
void fit_whitening(const TrialConfig& config, const ImageSet& train, ParameterSet& parameters, ShardPool& pool);

}  // namespace normlab
