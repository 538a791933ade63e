#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var add(const Var& a, const Var& b) {
  require_shape("add", "b", b.shape(), a.shape());
  Tape& tape = a.tape();
  Tensor y = tape.empty_like(a.value());
  tape.backend().add(a.value(), b.value(), y);
  return tape.record("add", {a, b}, y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    backend.copy_gradient(dy, d[1]);
    if (!d.take(0)) backend.copy_gradient(dy, d[0]);  // dy itself becomes the first input's gradient if possible
  });
}

}  // namespace normlab
