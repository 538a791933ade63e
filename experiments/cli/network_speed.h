// Images a second of a whole network, in training and in inference, as it is and with its batch norms merged.
#pragma once

#include "core/backend.h"
#include "core/shards.h"
#include "nn/engine.h"

namespace normlab {

/// The median of optimisation steps (forward, backward, clip, AdamW) of `settings.max_batch` images, images a second.
double training_speed(Backend& backend, int threads, const ModelConfig& config, const EngineSettings& settings,
                      double seconds);
/// The same of evaluations, images to losses and predictions.
double inference_speed(Backend& backend, int threads, const ModelConfig& config, const EngineSettings& settings,
                       double seconds);
/// The configuration with frozen batch norms merged into the linears beside them.
ModelConfig fused_config(Backend& backend, const ModelConfig& config);

}  // namespace normlab
