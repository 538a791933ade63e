// Elementwise kernels and those with a value per column. V is the type of a value, or on a CPU of a vector of them.
#pragma once

#include "core/shared_kernels.h"

namespace normlab {
namespace shared {

struct Sum {
  template <class V>
  NORMLAB_DEVICE V operator()(V a, V b) const {
    return a + b;
  }
};
struct Same {
  template <class V>
  NORMLAB_DEVICE V operator()(V x) const {
    return x;
  }
};
struct TanhGradient {
  template <class V>
  NORMLAB_DEVICE V operator()(V dy, V y) const {
    return dy * (1 - y * y);
  }
};
struct Scale {
  template <class V>
  NORMLAB_DEVICE V operator()(V x, V gain) const {
    return x * gain;
  }
  template <class V>
  NORMLAB_DEVICE V operator()(V (&terms)[1], V dy, V x, V gain) const {
    terms[0] = dy * x;
    return dy * gain;
  }
};
struct Affine {
  template <class V>
  NORMLAB_DEVICE V operator()(V x, V gamma, V beta) const {
    return gamma * x + beta;
  }
  template <class V>
  NORMLAB_DEVICE V operator()(V (&terms)[2], V dy, V x, V gamma) const {
    terms[0] = dy * x;
    terms[1] = dy;
    return dy * gamma;
  }
};
/// The gradient itself, and its sums.
struct SameAndSum {
  template <class V>
  NORMLAB_DEVICE V operator()(V (&terms)[1], V dy) const {
    return terms[0] = dy;
  }
};

}  // namespace shared

template <class D>
void SharedKernels<D>::add(Tensor a, Tensor b, Tensor y) {
  on().map("add", 1, y.size(), shared::Sum(), Operands<2>{.in = {a, b}, .y = {y}});
}

template <class D>
void SharedKernels<D>::copy_gradient(Tensor dy, Gradient dx) {
  if (dx) on().map("copy_gradient", 1, dy.size(), shared::Same(), Operands<1>{.in = {dy}, .y = dx});
}

template <class D>
void SharedKernels<D>::tanh_backward(Tensor dy, Tensor y, Gradient dx) {
  if (dx) on().map("tanh_backward", 1, y.size(), shared::TanhGradient(), Operands<2>{.in = {dy, y}, .y = dx});
}

template <class D>
void SharedKernels<D>::scale(std::int64_t group, Tensor x, Tensor gain, Tensor y) {
  on().map("scale", x.shape().rows(), x.shape().back(), shared::Scale(),
           Operands<1, 1>{.in = {x}, .columns = {gain}, .y = {y}, .group = group});
}

template <class D>
void SharedKernels<D>::scale_backward(std::int64_t group, Tensor dy, Tensor x, Tensor gain, Gradient dx,
                                      Gradient dgain) {
  on().map("scale_backward", x.shape().rows(), x.shape().back(), shared::Scale(),
           Operands<2, 1, 1>{.in = {dy, x}, .columns = {gain}, .y = dx, .sums = {dgain}, .group = group});
}

template <class D>
void SharedKernels<D>::affine(Tensor x, Tensor gamma, Tensor beta, Tensor y) {
  on().map("affine", x.shape().rows(), x.shape().back(), shared::Affine(),
           Operands<1, 2>{.in = {x}, .columns = {gamma, beta}, .y = {y}});
}

template <class D>
void SharedKernels<D>::affine_backward(Tensor dy, Tensor x, Tensor gamma, Gradient dx, Gradient dgamma,
                                       Gradient dbeta) {
  on().map("affine_backward", x.shape().rows(), x.shape().back(), shared::Affine(),
           Operands<2, 1, 2>{.in = {dy, x}, .columns = {gamma}, .y = dx, .sums = {dgamma, dbeta}});
}

template <class D>
void SharedKernels<D>::add_positions(TokenDims d, Tensor x, Tensor position, Tensor y) {
  on().map("add_positions", d.batch, d.tokens * d.cols, shared::Sum(),
           Operands<1, 1>{.in = {x}, .columns = {position}, .y = {y}});
}

template <class D>
void SharedKernels<D>::add_positions_backward(TokenDims d, Tensor dy, Gradient dx, Gradient dposition) {
  if (!dposition) return copy_gradient(dy, dx);
  on().map("add_positions_backward", d.batch, d.tokens * d.cols, shared::SameAndSum(),
           Operands<1, 0, 1>{.in = {dy}, .y = dx, .sums = {dposition}});
}

}  // namespace normlab
