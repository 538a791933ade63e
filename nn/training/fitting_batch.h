// Finds by trial how much of a batch fits into a device's memory, since the needs of libraries and other processes
// there cannot be known.
#pragma once

#include <functional>

#include "nn/training/engine.h"

namespace normlab {

/// The largest number below `images`, to within a sixteenth, for which `attempt` throws no DeviceMemoryError; 0 if one
/// image is too many. Assumes that more images never take less memory.
std::int64_t most_that_fit(std::int64_t images, const std::function<void(std::int64_t)>& attempt);

/// The same for the images that pass through the network together in a step of such an engine. Call it once the engine
/// that ran out of memory is gone. Returns all images of a step's part if they now fit. An evaluation of `evaluated`
/// images at once must fit beside the step.
std::int64_t fitting_part(Backend& backend, ShardPool& pool, const ModelConfig& config, EngineSettings settings,
                          std::int64_t evaluated = 0);

/// Bytes that an engine with so many gradient buffers needs for any batch size: weights, also rounded or packed for
/// products, gradients, moments and averages.
std::size_t standing_bytes(const Backend& backend, const ModelConfig& config, const EngineSettings& settings,
                           std::int64_t gradients);

}  // namespace normlab
