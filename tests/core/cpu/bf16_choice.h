// Which bf16 products this machine's tests can use.
#pragma once

#include <doctest/doctest.h>

#include "core/backend.h"
#include "core/cpu/bf16_products.h"
#include "nn/training/train_settings.h"

namespace normlab {

inline bool has_native_bf16() { return cpu_has("avx512bf16") || cpu_has("amx-bf16"); }
/// The fast ones where the CPU has them: what holds for both is tested with these.
inline Bf16Products best_bf16() { return has_native_bf16() ? Bf16Products::native : Bf16Products::emulated; }

/// In which a network has activations of this type, f32, f64 or bf16.
inline Precision precision_of(DType dtype, Bf16Products how = best_bf16()) {
  if (dtype == DType::f64) return Precision::fp64;
  if (dtype == DType::f32) return Precision::fp32;
  return how == Bf16Products::native ? Precision::bf16 : Precision::bf16_emulated;
}

#define SKIP_WITHOUT_NATIVE_BF16()                                     \
  if (!has_native_bf16()) {                                            \
    MESSAGE("skipped: this CPU has neither AVX512-BF16 nor AMX-BF16"); \
    return;                                                            \
  }

}  // namespace normlab
