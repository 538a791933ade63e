// Norms without statistics, such as Dynamic Tanh ("Transformers without Normalization", section 4).
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var pointwise_norm(PointwisePhi phi, const Var& x, const Var& alpha, const Var& shift, const Var& gamma,
                   const Var& beta) {
  const std::int64_t cols = x.shape().back();
  require_shape("pointwise_norm", "alpha", alpha.shape(), {1});
  if (shift) require_shape("pointwise_norm", "shift", shift.shape(), {1});
  require_shape("pointwise_norm", "gamma", gamma.shape(), {cols});
  require_shape("pointwise_norm", "beta", beta.shape(), {cols});
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  const Tensor s = shift ? shift.value() : Tensor();
  tape.backend().pointwise_norm(phi, x.value(), alpha.value(), s, gamma.value(), beta.value(), y);
  // Keeps nothing: recomputing phi in the backward pass takes less time than writing and reading it.
  return tape.record(
      "pointwise_norm", {x, alpha, shift, gamma, beta}, y,
      [=, x = x.value(), a = alpha.value(), g = gamma.value()](Backend& backend, const Tensor& dy, Grads& d) {
        backend.pointwise_norm_backward(phi, {.dy = dy, .x = x, .gamma = g, .dx = d[0], .dgamma = d[3], .dbeta = d[4]},
                                        a, s, d[1], d[2]);
      });
}

}  // namespace normlab
