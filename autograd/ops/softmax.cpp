#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var softmax(const Var& x) {
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  tape.backend().softmax(x.value(), y);
  return tape.record("softmax", {x}, y,
                     [=](Backend& backend, const Tensor& dy, Grads& d) { backend.softmax_backward(dy, y, d[0]); });
}

}  // namespace normlab
