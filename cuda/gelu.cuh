// GELU (Hendrycks and Gimpel 2016) and its slope.
#pragma once

#include "core/shared_kernels.h"
#include "cuda/kernel.cuh"
#include "cuda/tensor_core.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

template <class A>
struct ValueAndSlope {
  A value, slope;
};

template <class A>
__device__ ValueAndSlope<A> gelu_of(GeluForm form, A x) {
  if (form == GeluForm::erf) {
    // By erfc: 1 + erf(x / sqrt(2)) would lose the digits of the lower tail.
    const A phi = A(0.5) * std::erfc(-x * A(kRootHalf));
    return {x * phi, phi + x * A(kInverseRootTwoPi) * std::exp(A(-0.5) * x * x)};
  }
  const A t = std::tanh(A(kRootTwoOverPi) * (x + A(kGeluCubic) * x * x * x));
  const A inner = A(kRootTwoOverPi) * (1 + 3 * A(kGeluCubic) * x * x);
  return {A(0.5) * x * (1 + t), A(0.5) * (1 + t) + A(0.5) * x * (1 - t * t) * inner};
}

/// The erf form for results that are rounded to bf16, with one exponential for both: 1 - Phi(z sqrt(2)) is
/// exp(-z^2) t q(t) / 2 with t = 1 / (1 + 0.55 z). q interpolates exp(z^2) erfc(z) / t at Chebyshev's points, within
/// 5.6e-6 of it for all z >= 0; half a unit of bf16 is 2e-3.
__device__ inline ValueAndSlope<float> gelu_near(float x) {
  constexpr float kHalfLog2E = 0.721347520f;
  constexpr float kQ[] = {0.101858027f, -0.311201025f, 0.188145905f, 0.132629821f,
                          0.268220764f, 0.310044795f,  0.310306831f};
  const float e = exp2_of(-kHalfLog2E * x * x), t = reciprocal_of(1 + 0.55f * 0.707106781f * std::fabs(x));
  float q = kQ[0];
  for (int i = 1; i < 7; ++i) q = q * t + kQ[i];
  const float tail = 0.5f * e * t * q, phi = x < 0 ? tail : 1 - tail;
  return {x * phi, phi + x * float(kInverseRootTwoPi) * e};
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
