// exp for results that are rounded to bf16: plain arithmetic that the compiler turns into vectors. Both ways of doing
// bf16 products use it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/backend.h"

namespace normlab::cpu {

/// exp(x) for x <= 88, relative error 3e-7; 0 below -87. NaN stays NaN.
inline float quick_exp(float x) {
  // x = n log 2 + r, |r| <= log(2) / 2: 2^n by the exponent's bits, exp(r) by its series up to r^6 / 720.
  constexpr float kLog2E = 1.44269504f, kLog2High = 0.693359375f, kLog2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves a float's integer part in its low bits
  const float shifted = x * kLog2E + kRound, n = shifted - kRound;
  const float r = (x - n * kLog2High) - n * kLog2Low;
  const float series =
      1.0f + r * (1.0f + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720))))));
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(shifted) + 127u) << 23;  // its low bits are n
  const float value = series * std::bit_cast<float>(power);
  return x < -87.0f ? 0.0f : value;
}

}  // namespace normlab::cpu
