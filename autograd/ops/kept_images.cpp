// Drop-path (Huang et al. 2016) that skips dropped images: the kept ones are gathered before the branch and added to
// the shortcut after it. Each run of consecutive images is one call, so that devices need no kernels for this.
#include "autograd/image_runs.h"
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var gather_images(const Var& x, Tensor keep) {
  require_shape("gather_images", "keep", keep.shape(), {x.shape()[0]});
  Tape& tape = x.tape();
  const Tensor all = x.value(), y = tape.empty(all.slice(0, kept_images(keep)).shape(), all.dtype());
  for_image_runs(keep, [&](const ImageRun& run) {
    if (run.kept)
      tape.backend().copy_gradient(all.slice(run.first, run.count), {y.slice(run.at, run.count), Write::assign});
  });
  return tape.record("gather_images", {x}, y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    const Gradient dx = d[0];
    if (!dx) return;
    for_image_runs(keep, [&](const ImageRun& run) {
      const Tensor to = dx.to.slice(run.first, run.count);
      if (run.kept)
        backend.copy_gradient(dy.slice(run.at, run.count), {to, dx.write});
      else if (dx.write == Write::assign)
        backend.memory().clear(to.raw(), to.bytes());
    });
  });
}

Var scatter_add_images(const Var& x, Tensor keep, double rate, const Var& residual) {
  if (!(rate >= 0.0 && rate < 1.0))
    throw InputError(concat("scatter_add_images: rate is ", rate, ", expected at least 0 and below 1"));
  require_shape("scatter_add_images", "keep", keep.shape(), {residual.shape()[0]});
  require_shape("scatter_add_images", "x", x.shape(), residual.value().slice(0, kept_images(keep)).shape());
  Tape& tape = residual.tape();
  const std::int64_t image = residual.shape().size() / keep.size();
  const Tensor some = x.value(), all = residual.value(), y = tape.empty_like(all);
  for_image_runs(keep, [&](const ImageRun& run) {
    const Tensor from = all.slice(run.first, run.count), to = y.slice(run.first, run.count);
    if (run.kept)
      tape.backend().dropout(image, rate, some.slice(run.at, run.count), keep.slice(run.first, run.count), from, to);
    else
      tape.backend().copy_gradient(from, {to, Write::assign});
  });
  return tape.record("scatter_add_images", {x, residual}, y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    if (const Gradient dx = d[0])
      for_image_runs(keep, [&](const ImageRun& run) {
        if (run.kept)
          backend.dropout_backward(image, rate, dy.slice(run.first, run.count), keep.slice(run.first, run.count),
                                   {dx.to.slice(run.at, run.count), dx.write});
      });
    if (!d.take(1)) backend.copy_gradient(dy, d[1]);
  });
}

}  // namespace normlab
