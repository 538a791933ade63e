// exp and GELU for results that are rounded to bf16: plain arithmetic that the compiler turns into vectors, accurate to
// 2e-6 where bf16 keeps 4e-3. Both ways of doing bf16 products use them.
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

/// Phi(x) and exp(-x^2 / 2). Phi(-|x|) exp(x^2 / 2) is smooth: a polynomial in t = 1 / (1 + 0.35 |x|), least squares on
/// the relative error over [0, 14], which stays below 2e-6.
inline void normal_distribution(float x, float& phi, float& bell) {
  const float z = std::abs(x), t = 1.0f / (1.0f + 0.35f * z);
  bell = quick_exp(-0.5f * x * x);
  const float tail =
      bell * t *
      (0.1397652f +
       t * (0.13710201f +
            t * (0.14151104f + t * (0.01434857f + t * (0.20213694f + t * (-0.17725517f + t * 0.0423906f))))));
  phi = x < 0.0f ? tail : 1.0f - tail;
}

inline constexpr float kTwoRootTwoOverPi = 1.59576912f;  // 2 sqrt(2 / pi)
inline constexpr float kCubic = 0.044715f;

/// gelu(x), and its slope. The tanh form is x s(2u) with s the logistic function and u = sqrt(2 / pi) (x + 0.044715
/// x^3).
inline float quick_gelu(GeluForm form, float x) {
  float phi, bell;
  if (form == GeluForm::erf)
    normal_distribution(x, phi, bell);
  else
    phi = 1.0f / (1.0f + quick_exp(std::min(-kTwoRootTwoOverPi * (x + kCubic * x * x * x), 88.0f)));
  return x * phi;
}
inline float quick_gelu_slope(GeluForm form, float x) {
  if (form == GeluForm::erf) {
    float phi, bell;
    normal_distribution(x, phi, bell);
    return phi + x * 0.39894228f * bell;
  }
  const float s = 1.0f / (1.0f + quick_exp(std::min(-kTwoRootTwoOverPi * (x + kCubic * x * x * x), 88.0f)));
  return s + x * s * (1.0f - s) * kTwoRootTwoOverPi * (1.0f + 3.0f * kCubic * x * x);
}

}  // namespace normlab::cpu
