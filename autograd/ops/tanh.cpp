#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var tanh(const Var& x) {
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  tape.backend().tanh(x.value(), y);
  return tape.record("tanh", {x}, y,
                     [=](Backend& backend, const Tensor& dy, Grads& d) { backend.tanh_backward(dy, y, d[0]); });
}

}  // namespace normlab
