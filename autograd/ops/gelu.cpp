// GELU (Hendrycks and Gimpel 2016), exact or by tanh.
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var gelu(const Var& x, GeluForm form) {
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  tape.backend().gelu(form, x.value(), y);
  return tape.record("gelu", {x}, y, [=, x = x.value()](Backend& backend, const Tensor& dy, Grads& d) {
    backend.gelu_backward(form, dy, x, d[0]);
  });
}

}  // namespace normlab
