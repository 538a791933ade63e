// How much of a batch a device has memory for, found by trying: what libraries and other processes take there is no
// number that could be known.
#pragma once

#include <functional>

#include "nn/engine.h"

namespace normlab {

/// The most images below `images` with which `attempt` throws no DeviceMemoryError, to a sixteenth; 0 where one image
/// is too many. More images never take less.
std::int64_t most_that_fit(std::int64_t images, const std::function<void(std::int64_t)>& attempt);

/// The same for what goes through the network at a time in a step of such an engine. To be called once the engine that
/// ran out of memory is gone. All of a step's part where that fits now.
std::int64_t fitting_part(Backend& backend, ShardPool& pool, const ModelConfig& config, EngineSettings settings);

/// Bytes that an engine holds whatever the batch: weights, gradients, moments and averages.
std::size_t standing_bytes(const ModelConfig& config, const EngineSettings& settings);

}  // namespace normlab
