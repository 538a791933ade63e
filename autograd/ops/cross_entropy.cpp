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

using Forward = void (Kernels::*)(LossDims, Tensor, Tensor, Tensor, Tensor);
using Backward = void (Kernels::*)(LossDims, Tensor, Tensor, Tensor, Tensor, Gradient);

Var cross_entropy(const char* op, Forward forward, Backward backward, const Var& logits, const Targets& t) {
  const LossDims dims{logits.shape().rows(), logits.shape().back(), t.label_smoothing, t.smoothing};
  check_targets(op, dims, t);
  Tape& tape = logits.tape();
  Tensor losses = tape.empty_acc(logits.value(), {dims.batch});
  (tape.backend().*forward)(dims, logits.value(), t.labels, t.soft, losses);
  return tape.record(
      op, {logits}, losses,
      [=, z = logits.value(), labels = t.labels, soft = t.soft](Backend& backend, const Tensor& dy, Grads& d) {
        (backend.*backward)(dims, dy, z, labels, soft, d[0]);
      });
}

}  // namespace

Var softmax_cross_entropy(const Var& logits, const Targets& targets) {
  return cross_entropy("softmax_cross_entropy", &Backend::softmax_cross_entropy,
                       &Backend::softmax_cross_entropy_backward, logits, targets);
}

Var sigmoid_cross_entropy(const Var& logits, const Targets& targets) {
  return cross_entropy("sigmoid_cross_entropy", &Backend::sigmoid_cross_entropy,
                       &Backend::sigmoid_cross_entropy_backward, logits, targets);
}

Var pixel_softmax_cross_entropy(const Var& logits, Tensor labels, std::int32_t ignore) {
  const LossDims dims{logits.shape().rows(), logits.shape().back(), 0.0, Smoothing::all};
  const Shape& s = logits.shape();
  if (s.rank() < 2)
    throw InputError(concat("pixel_softmax_cross_entropy: logits are ", s.str(), ", expected pixels of classes"));
  std::array<std::int64_t, Shape::kMaxRank> pixels{};
  for (int i = 0; i < s.rank() - 1; ++i) pixels[static_cast<std::size_t>(i)] = s[i];
  const Shape shape(pixels.begin(), pixels.begin() + s.rank() - 1);
  require_shape("pixel_softmax_cross_entropy", "labels", labels.shape(), shape);
  Tape& tape = logits.tape();
  Tensor losses = tape.empty_acc(logits.value(), shape);
  tape.backend().pixel_softmax_cross_entropy(dims, ignore, logits.value(), labels, losses);
  return tape.record("pixel_softmax_cross_entropy", {logits}, losses,
                     [=, z = logits.value()](Backend& backend, const Tensor& dy, Grads& d) {
                       backend.pixel_softmax_cross_entropy_backward(dims, ignore, dy, z, labels, d[0]);
                     });
}

}  // namespace normlab
