#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var reshape(const Var& x, const Shape& shape) {
  // The same memory under another shape, also in the backward pass.
  return x.tape().record("reshape", {x}, x.value().reshape(shape), [=](Backend& backend, const Tensor& dy, Grads& d) {
    if (!d.take(0)) backend.copy_gradient(dy, d[0]);
  });
}

}  // namespace normlab
