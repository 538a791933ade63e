// Classification losses, one number per image. The seed of backward() contains the mean over the batch.
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {
namespace {

void check_targets(const char* op, LossDims dims, const Targets& targets) {
  if (bool(targets.labels) == bool(targets.soft))
    throw InputError(concat(op, ": expected either labels or soft targets"));
  if (targets.labels) require_shape(op, "labels", targets.labels.shape(), {dims.batch});
  if (targets.soft) require_shape(op, "targets", targets.soft.shape(), {dims.batch, dims.classes});
  if (dims.smoothing == Smoothing::others && dims.classes < 2)
    throw InputError(concat(op, ": smoothing needs at least two classes"));
}

/// losses has `shape`.
Var cross_entropy(const char* op, const LossDims& dims, const Var& logits, Tensor labels, Tensor soft,
                  const Shape& shape) {
  Tape& tape = logits.tape();
  Tensor losses = tape.empty_acc(logits.value(), shape);
  tape.backend().cross_entropy(dims, logits.value(), labels, soft, losses);
  return tape.record(op, {logits}, losses, [=, z = logits.value()](Backend& backend, const Tensor& dy, Grads& d) {
    backend.cross_entropy_backward(dims, dy, z, labels, soft, d[0]);
  });
}

Var of_images(const char* op, bool sigmoid, const Var& logits, const Targets& t) {
  const LossDims dims{logits.shape().rows(), logits.shape().back(), t.label_smoothing, t.smoothing, sigmoid};
  check_targets(op, dims, t);
  return cross_entropy(op, dims, logits, t.labels, t.soft, {dims.batch});
}

}  // namespace

Var softmax_cross_entropy(const Var& logits, const Targets& targets) {
  return of_images("softmax_cross_entropy", false, logits, targets);
}

Var sigmoid_cross_entropy(const Var& logits, const Targets& targets) {
  return of_images("sigmoid_cross_entropy", true, logits, targets);
}

Var pixel_softmax_cross_entropy(const Var& logits, Tensor labels, std::int32_t ignore) {
  const LossDims dims{.batch = logits.shape().rows(), .classes = logits.shape().back(), .ignored = ignore};
  const Shape& s = logits.shape();
  if (s.rank() < 2)
    throw InputError(concat("pixel_softmax_cross_entropy: logits are ", s.str(), ", expected pixels of classes"));
  std::array<std::int64_t, Shape::kMaxRank> pixels{};
  for (int i = 0; i < s.rank() - 1; ++i) pixels[static_cast<std::size_t>(i)] = s[i];
  const Shape shape(pixels.begin(), pixels.begin() + s.rank() - 1);
  require_shape("pixel_softmax_cross_entropy", "labels", labels.shape(), shape);
  return cross_entropy("pixel_softmax_cross_entropy", dims, logits, labels, Tensor(), shape);
}

}  // namespace normlab
