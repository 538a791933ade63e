// Patch merging before its reduction ("Swin Transformer", section 3.1).
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var merge_patches(const Var& x, std::int64_t height, std::int64_t width) {
  const Shape& s = x.shape();
  if (s.rank() != 3 || s[1] != height * width)
    throw InputError(concat("merge_patches: x is ", s.str(), ", expected [batch, ", height, " * ", width, ", width]"));
  const GridDims dims{.batch = s[0], .height = height, .width = width, .cols = s[2]};
  Tape& tape = x.tape();
  Tensor y = tape.empty({dims.batch, (height + 1) / 2 * ((width + 1) / 2), 4 * dims.cols}, x.value().dtype());
  tape.backend().gather(dims, x.value(), {y});
  return tape.record("merge_patches", {x}, y,
                     [=](Backend& backend, const Tensor& dy, Grads& d) { backend.scatter(dims, dy, d[0]); });
}

}  // namespace normlab
