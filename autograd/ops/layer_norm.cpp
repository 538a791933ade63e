// LayerNorm (Ba et al. 2016), with and without learnable parameters.
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var layer_norm(const Var& x, const Var& gamma, const Var& beta, double eps) {
  const NormDims dims{x.shape().rows(), x.shape().back(), eps};
  if (gamma) require_shape("layer_norm", "gamma", gamma.shape(), {dims.cols});
  if (bool(gamma) != bool(beta)) throw InputError("layer_norm: expected both gamma and beta, or neither");
  if (beta) require_shape("layer_norm", "beta", beta.shape(), {dims.cols});
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  Tensor mean = tape.empty_acc(x.value(), {dims.rows}), rstd = tape.empty_acc(x.value(), {dims.rows});
  const Tensor g = gamma ? gamma.value() : Tensor(), b = beta ? beta.value() : Tensor();
  tape.backend().layer_norm(dims, {.x = x.value(), .gamma = g, .beta = b, .y = y, .mean = mean, .rstd = rstd});
  // Keeps mean and rstd, [rows] each. The backward pass recomputes x_hat, which would take another [rows, cols].
  return tape.record("layer_norm", {x, gamma, beta}, y,
                     [=, x = x.value()](Backend& backend, const Tensor& dy, Grads& d) {
                       const NormBackward args{.dy = dy,
                                               .x = x,
                                               .gamma = g,
                                               .mean = mean,
                                               .rstd = rstd,
                                               .dx = d[0],
                                               .dgamma = d[1],
                                               .dbeta = d[2],
                                               .dsum = d.sums(0)};
                       backend.layer_norm_backward(dims, args);
                     });
}

}  // namespace normlab
