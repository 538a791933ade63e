// Dynamic Tanh, "Transformers without Normalization" section 4.
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var dyt(const Var& x, const Var& alpha, const Var& gamma, const Var& beta) {
  const std::int64_t cols = x.shape().back();
  require_shape("dyt", "alpha", alpha.shape(), {1});
  require_shape("dyt", "gamma", gamma.shape(), {cols});
  require_shape("dyt", "beta", beta.shape(), {cols});
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  tape.backend().dyt(x.value(), alpha.value(), gamma.value(), beta.value(), y);
  // Keeps nothing: recomputing the tanh in the backward pass takes less time than writing and reading it.
  return tape.record(
      "dyt", {x, alpha, gamma, beta}, y,
      [=, x = x.value(), a = alpha.value(), g = gamma.value()](Backend& backend, const Tensor& dy, Grads& d) {
        backend.dyt_backward({.dy = dy, .x = x, .gamma = g, .dx = d[0], .dgamma = d[2], .dbeta = d[3]}, a, d[1]);
      });
}

}  // namespace normlab
