#pragma once

#include "core/arena.h"

namespace normlab {

/// Standard normal numbers in memory of `arena`, f64, f32 or bf16.
Tensor randn(Arena& arena, const Shape& shape, DType dtype, std::uint64_t seed, double std = 1.0, double mean = 0.0);

}  // namespace normlab
