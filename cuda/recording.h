// The kernels of a step as one CUDA graph: a launch each costs the host some microseconds, a graph of hundreds not much
// more than one of them.
#pragma once

#include <memory>

#include "core/device.h"
#include "cuda/device.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// What `work` asks of `stream`, without running it. Throws what `work` throws, with nothing kept.
std::unique_ptr<Recording> record_graph(const Stream& stream, FunctionRef<void()> work);

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
