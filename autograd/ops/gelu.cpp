// GELU (Hendrycks and Gimpel 2016), exact or by tanh.
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var gelu(const Var& x, GeluForm form) {
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  tape.backend().gelu(form, x.value(), y);
  const Saved saved = tape.save(x);
  const Var out = tape.record("gelu", {x}, y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    backend.gelu_backward(form, dy, saved.value(), d[0]);
  });
  tape.can_remake(out, [=](Backend& backend, const Tensor& again) { backend.gelu(form, saved.value(), again); });
  return out;
}

}  // namespace normlab
