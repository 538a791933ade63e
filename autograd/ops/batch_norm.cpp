// Batch norm (Ioffe and Szegedy 2015) over a batch that may be cut into shards, and with frozen statistics.
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {
namespace {
void require_channels(const char* op, std::int64_t cols, const Var& gamma, const Var& beta, const Tensor& mean,
                      const Tensor& var) {
  require_shape(op, "gamma", gamma.shape(), {cols});
  require_shape(op, "beta", beta.shape(), {cols});
  require_shape(op, "running_mean", mean.shape(), {cols});
  require_shape(op, "running_var", var.shape(), {cols});
}
}  // namespace

Var batch_norm(const Var& x, const Var& gamma, const Var& beta, Tensor running_mean, Tensor running_var,
               const BatchSlice& slice, const BatchNormSettings& settings) {
  const std::int64_t cols = x.shape().back();
  require_channels("batch_norm", cols, gamma, beta, running_mean, running_var);
  if (slice.images < 1 || x.shape().rows() % slice.images != 0)
    throw InputError(
        concat("batch_norm: x is ", x.shape().str(), ", whose rows are not a multiple of ", slice.images, " images"));
  const BatchNormDims dims{.images = slice.images,
                           .rows_per_image = x.shape().rows() / slice.images,
                           .cols = cols,
                           .first_image = slice.first_image,
                           .batch = slice.batch,
                           .statistics_batch = settings.statistics_batch,
                           .eps = settings.eps,
                           .momentum = settings.momentum,
                           .step_images = settings.step_images,
                           .part_begin = settings.part_begin};
  if (dims.smallest_group() * dims.rows_per_image < 2)
    throw InputError(concat("batch_norm: x is ", x.shape().str(),
                            ", one value per channel, which has no variance; use a larger batch or statistics_batch"));
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  const Shape statistics{dims.groups(), cols};
  Tensor mean = tape.empty_acc(x.value(), statistics), rstd = tape.empty_acc(x.value(), statistics);
  Collective* shards = slice.shards;
  const Tensor g = gamma.value(), b = beta.value();
  const NormForward forward{.x = x.value(), .gamma = g, .beta = b, .y = y, .mean = mean, .rstd = rstd};
  tape.backend().batch_norm(dims, *shards, forward, running_mean, running_var);
  const Saved saved = tape.save(x);
  const Var out = tape.record("batch_norm", {x, gamma, beta}, y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    const NormBackward args{.dy = dy,
                            .x = saved.value(),
                            .gamma = g,
                            .mean = mean,
                            .rstd = rstd,
                            .dx = d[0],
                            .dgamma = d[1],
                            .dbeta = d[2]};
    backend.batch_norm_backward(dims, *shards, args);
  });
  tape.can_remake(out, [=](Backend& backend, const Tensor& again) {
    backend.batch_norm_again(dims, {.x = saved.value(), .gamma = g, .beta = b, .y = again, .mean = mean, .rstd = rstd});
  });
  return out;
}

Var batch_norm_frozen(const Var& x, const Var& gamma, const Var& beta, Tensor running_mean, Tensor running_var,
                      double eps) {
  const NormDims dims{x.shape().rows(), x.shape().back(), eps};
  require_channels("batch_norm_frozen", dims.cols, gamma, beta, running_mean, running_var);
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  tape.backend().batch_norm_frozen(dims, x.value(), gamma.value(), beta.value(), running_mean, running_var, y);
  return tape.record("batch_norm_frozen", {x, gamma, beta}, y,
                     [=, x = x.value(), g = gamma.value()](Backend& backend, const Tensor& dy, Grads& d) {
                       const NormBackward n{.dy = dy, .x = x, .gamma = g, .dx = d[0], .dgamma = d[1], .dbeta = d[2]};
                       backend.batch_norm_frozen_backward(dims, n, running_mean, running_var);
                     });
}

}  // namespace normlab
