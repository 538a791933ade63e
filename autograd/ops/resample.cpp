#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var resample(const Var& x, std::int64_t height, std::int64_t width, Resampling method) {
  const Shape& s = x.shape();
  if (s.rank() != 4 || s.size() == 0)
    throw InputError(concat("resample: x is ", s.str(), ", expected [batch, height, width, channels], none of them 0"));
  if (height < 1 || width < 1)
    throw InputError(concat("resample: the target grid is ", height, "x", width, ", which has no points"));
  const ResampleDims dims{.batch = s[0],
                          .height = s[1],
                          .width = s[2],
                          .channels = s[3],
                          .out_height = height,
                          .out_width = width,
                          .method = method};
  Tape& tape = x.tape();
  Tensor y = tape.empty({s[0], height, width, s[3]}, x.value().dtype());
  tape.backend().resample(dims, x.value(), y);
  return tape.record("resample", {x}, y,
                     [=](Backend& backend, const Tensor& dy, Grads& d) { backend.resample_backward(dims, dy, d[0]); });
}

}  // namespace normlab
