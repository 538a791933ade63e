// GELU (Hendrycks and Gimpel 2016) and its slope.
#pragma once

#include "cuda/kernel.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

template <class A>
struct ValueAndSlope {
  A value, slope;
};

template <class A>
__device__ ValueAndSlope<A> gelu_of(GeluForm form, A x) {
  constexpr A kRootHalf = A(0.70710678118654752440), kInverseRootTwoPi = A(0.39894228040143267794);
  constexpr A kRootTwoOverPi = A(0.79788456080286535588), kCubic = A(0.044715);
  if (form == GeluForm::erf) {
    // By erfc: 1 + erf(x / sqrt(2)) would lose the digits of the lower tail.
    const A phi = A(0.5) * std::erfc(-x * kRootHalf);
    return {x * phi, phi + x * kInverseRootTwoPi * std::exp(A(-0.5) * x * x)};
  }
  const A t = std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x));
  const A inner = kRootTwoOverPi * (1 + 3 * kCubic * x * x);
  return {A(0.5) * x * (1 + t), A(0.5) * (1 + t) + A(0.5) * x * (1 - t * t) * inner};
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
