// GroupNorm (Wu and He 2018).
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var group_norm(const Var& x, const Var& gamma, const Var& beta, std::int64_t groups, double eps) {
  const std::int64_t images = x.shape()[0], cols = x.shape().back();
  const GroupNormDims dims{
      .images = images, .rows = x.shape().rows() / images, .cols = cols, .groups = groups, .eps = eps};
  require_shape("group_norm", "gamma", gamma.shape(), {cols});
  require_shape("group_norm", "beta", beta.shape(), {cols});
  if (groups < 1 || cols % groups != 0)
    throw InputError(concat("group_norm: ", groups, " groups do not divide ", cols, " channels"));
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  Tensor mean = tape.empty_acc(x.value(), {images, groups}), rstd = tape.empty_acc(x.value(), {images, groups});
  tape.backend().group_norm(
      dims, {.x = x.value(), .gamma = gamma.value(), .beta = beta.value(), .y = y, .mean = mean, .rstd = rstd});
  return tape.record(
      "group_norm", {x, gamma, beta}, y,
      [=, x = x.value(), g = gamma.value()](Backend& backend, const Tensor& dy, Grads& d) {
        const NormBackward args{
            .dy = dy, .x = x, .gamma = g, .mean = mean, .rstd = rstd, .dx = d[0], .dgamma = d[1], .dbeta = d[2]};
        backend.group_norm_backward(dims, args);
      });
}

}  // namespace normlab
