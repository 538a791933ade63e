#pragma once

#include "autograd/tape.h"
#include "core/backend.h"
#include "nn/probes/probes.h"

namespace normlab {

/// Adds features in host memory.
inline void see_on_host(FeatureStatistics& statistics, const Tensor& features, std::int64_t first_image = 0) {
  Arena memory;
  Tape tape(cpu_backend(), memory);
  statistics.see(tape.input(features), first_image);
}

}  // namespace normlab
