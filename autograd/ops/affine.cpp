// Gain and bias without statistics: the learnable half of a LayerNorm.
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var affine(const Var& x, const Var& gamma, const Var& beta) {
  const std::int64_t cols = x.shape().back();
  require_shape("affine", "gamma", gamma.shape(), {cols});
  require_shape("affine", "beta", beta.shape(), {cols});
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  tape.backend().affine(x.value(), gamma.value(), beta.value(), y);
  return tape.record("affine", {x, gamma, beta}, y,
                     [=, x = x.value(), g = gamma.value()](Backend& backend, const Tensor& dy, Grads& d) {
                       backend.affine_backward(dy, x, g, d[0], d[1], d[2]);
                     });
}

}  // namespace normlab
