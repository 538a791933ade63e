// The kernels of a step as one CUDA graph. Each launch costs the host some microseconds; a graph of hundreds costs
// little more than one launch.
#pragma once

#include <memory>

#include "core/device.h"
#include "cuda/device.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// Records what `work` asks of `stream` without running it. If `work` throws, rethrows and keeps nothing.
std::unique_ptr<Recording> record_graph(const Stream& stream, FunctionRef<void()> work);

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
