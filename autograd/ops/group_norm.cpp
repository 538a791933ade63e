// GroupNorm (Wu and He 2018).
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var group_norm(const Var& x, const Var& gamma, const Var& beta, std::int64_t groups, double eps) {
  const std::int64_t images = x.shape()[0], cols = x.shape().back();
  const GroupNormDims dims{images, x.shape().rows() / images, cols, groups, eps};
  require_shape("group_norm", "gamma", gamma.shape(), {cols});
  require_shape("group_norm", "beta", beta.shape(), {cols});
  if (groups < 1 || cols % groups != 0)
    throw InputError(concat("group_norm: ", groups, " groups do not divide ", cols, " channels"));
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  Tensor mean = tape.empty_acc(x.value(), {images, groups}), rstd = tape.empty_acc(x.value(), {images, groups});
  tape.backend().group_norm(dims, {x.value(), gamma.value(), beta.value(), y, mean, rstd});
  return tape.record("group_norm", {x, gamma, beta}, y,
                     [=, x = x.value(), g = gamma.value()](Backend& backend, const Tensor& dy, Grads& d) {
                       backend.group_norm_backward(dims, {dy, x, g, mean, rstd, d[0], d[1], d[2]});
                     });
}

}  // namespace normlab
