// Dropout (Srivastava et al. 2014) and drop-path (Huang et al. 2016), with a given mask or one drawn by (site,
// step, element).
#include "autograd/image_runs.h"
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {
namespace {

void check_rate(const char* op, double rate) {
  if (!(rate >= 0.0 && rate < 1.0))
    throw InputError(concat(op, ": rate is ", rate, ", expected at least 0 and below 1"));
}

/// residual + x keep / (1 - rate), or without a residual; one decision per `group` elements.
Var masked(const char* op, const Var& x, Tensor keep, double rate, std::int64_t group, const Var& residual = {}) {
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  tape.backend().dropout(group, rate, x.value(), keep, residual ? residual.value() : Tensor(), y);
  return tape.record(op, {x, residual}, y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    backend.dropout_backward(group, rate, dy, keep, d[0]);
    if (!d.take(1)) backend.copy_gradient(dy, d[1]);
  });
}

}  // namespace

Var dropout(const Var& x, Tensor keep, double rate) {
  check_rate("dropout", rate);
  require_shape("dropout", "keep", keep.shape(), x.shape());
  return masked("dropout", x, keep, rate, 1);
}

Var dropout_add(const Var& x, Tensor keep, double rate, const Var& residual) {
  check_rate("dropout_add", rate);
  require_shape("dropout_add", "residual", residual.shape(), x.shape());
  const bool by_image = keep.shape().rank() == 1 && x.shape().rank() != 1;
  require_shape("dropout_add", "keep", keep.shape(), by_image ? Shape{x.shape()[0]} : x.shape());
  return masked("dropout_add", x, keep, rate, by_image ? x.shape().size() / x.shape()[0] : 1, residual);
}

Tensor draw_mask(Tape& tape, const Shape& shape, double rate, const DrawKey& key, Tensor keep) {
  check_rate("draw_mask", rate);
  const std::int64_t per_image = shape[0] ? shape.size() / shape[0] : 0;
  const Tensor mask = tape.empty(shape, DType::u8);
  const auto draw = [&](std::int64_t first, Tensor of_images) {
    tape.backend().draw_mask({key.stream, rate, (key.first_image + first) * per_image}, key.state, of_images);
  };
  if (!keep) {
    draw(0, mask);
    return mask;
  }
  require_shape("draw_mask", "images of the mask", {shape[0]}, {kept_images(keep)});
  for_image_runs(keep, [&](const ImageRun& run) {
    if (run.kept) draw(run.first, mask.slice(run.at, run.count));
  });
  return mask;
}

}  // namespace normlab
