// Operands for tests of products by cuBLASLt.
#pragma once

#include "autograd/randn.h"
#include "core/arena.h"
#include "tests/cuda_emulation/lt_control.h"

namespace normlab {

constexpr std::int64_t kM = 6, kN = 16, kK = 24;  // rows, columns and depth of a product

inline double at(const Tensor& t, std::int64_t i) {
  return t.dtype() == DType::f64   ? t.data<double>()[i]
         : t.dtype() == DType::f32 ? double(t.data<float>()[i])
                                   : double(float(t.data<bf16>()[i]));
}

/// Random numbers that bf16 holds.
inline Tensor drawn(Arena& arena, const Shape& shape, std::uint64_t seed, DType type) {
  const Tensor from = randn(arena, shape, DType::f64, seed), t = arena.empty(shape, type);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const bf16 value(from.data<double>()[i]);
    if (type == DType::f64)
      t.data<double>()[i] = float(value);
    else if (type == DType::f32)
      t.data<float>()[i] = value;
    else
      t.data<bf16>()[i] = value;
  }
  return t;
}

}  // namespace normlab
