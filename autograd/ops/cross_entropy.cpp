// Classification losses, one number an image; the mean over the batch is in the seed of backward().
#include "autograd/ops.h"

namespace normlab {
namespace {

void check_targets(const char* op, LossDims dims, const Targets& targets) {
  if (bool(targets.labels) == bool(targets.soft)) throw InputError(concat(op, ": either labels or soft targets"));
  if (targets.labels) require_shape(op, "labels", targets.labels.shape(), {dims.batch});
  if (targets.soft) require_shape(op, "targets", targets.soft.shape(), {dims.batch, dims.classes});
  if (dims.smooth_others && dims.classes < 2) throw InputError(concat(op, ": smoothing needs two classes"));
}

LossDims loss_dims(const Var& logits, const Targets& t) {
  return {logits.shape().rows(), logits.shape().back(), t.label_smoothing, t.smooth_others};
}

}  // namespace

Var softmax_cross_entropy(const Var& logits, const Targets& targets) {
  const LossDims dims = loss_dims(logits, targets);
  check_targets("softmax_cross_entropy", dims, targets);
  Tape& tape = logits.tape();
  Tensor losses = tape.empty_acc(logits.value(), {dims.batch});
  tape.backend().softmax_cross_entropy(dims, logits.value(), targets.labels, targets.soft, losses);
  return tape.record("softmax_cross_entropy", {logits}, losses,
                     [=, z = logits.value(), labels = targets.labels, soft = targets.soft](Backend& backend,
                                                                                           const Tensor& dy, Grads& d) {
                       backend.softmax_cross_entropy_backward(dims, dy, z, labels, soft, d[0]);
                     });
}

Var sigmoid_cross_entropy(const Var& logits, const Targets& targets) {
  const LossDims dims = loss_dims(logits, targets);
  check_targets("sigmoid_cross_entropy", dims, targets);
  Tape& tape = logits.tape();
  Tensor losses = tape.empty_acc(logits.value(), {dims.batch});
  tape.backend().sigmoid_cross_entropy(dims, logits.value(), targets.labels, targets.soft, losses);
  return tape.record("sigmoid_cross_entropy", {logits}, losses,
                     [=, z = logits.value(), labels = targets.labels, soft = targets.soft](Backend& backend,
                                                                                           const Tensor& dy, Grads& d) {
                       backend.sigmoid_cross_entropy_backward(dims, dy, z, labels, soft, d[0]);
                     });
}

}  // namespace normlab
