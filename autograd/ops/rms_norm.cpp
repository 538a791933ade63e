// RMSNorm (Zhang and Sennrich 2019); the epsilon is inside the root.
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var rms_norm(const Var& x, const Var& gamma, double eps) {
  const NormDims dims{x.shape().rows(), x.shape().back(), eps};
  require_shape("rms_norm", "gamma", gamma.shape(), {dims.cols});
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  Tensor rstd = tape.empty_acc(x.value(), {dims.rows});
  tape.backend().rms_norm(dims, {.x = x.value(), .gamma = gamma.value(), .y = y, .rstd = rstd});
  return tape.record(
      "rms_norm", {x, gamma}, y, [=, x = x.value(), g = gamma.value()](Backend& backend, const Tensor& dy, Grads& d) {
        backend.rms_norm_backward(dims, {.dy = dy, .x = x, .gamma = g, .rstd = rstd, .dx = d[0], .dgamma = d[1]});
      });
}

}  // namespace normlab
