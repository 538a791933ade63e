// Learned gains: per channel, per head, or a single number.
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var scale(const Var& x, const Var& gain) {
  const std::int64_t cols = x.shape().back(), gains = gain.shape().size();
  if (gain.shape().rank() != 1 || gains < 1 || cols % gains != 0)
    throw InputError(concat("scale: gain is ", gain.shape().str(), ", expected one axis that divides ", cols));
  const std::int64_t group = cols / gains;
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  tape.backend().scale(group, x.value(), gain.value(), y);
  return tape.record("scale", {x, gain}, y,
                     [=, x = x.value(), g = gain.value()](Backend& backend, const Tensor& dy, Grads& d) {
                       backend.scale_backward(group, dy, x, g, d[0], d[1]);
                     });
}

}  // namespace normlab
