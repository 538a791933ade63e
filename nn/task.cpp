#include "nn/task.h"

namespace normlab {
namespace {

/// Labels i32 [B], or soft targets [B, classes] in the type of the losses.
void require_classes_or_shares(const Tensor& targets, const ModelConfig& model, std::int64_t images) {
  const std::int64_t classes = num_classes(model);
  const bool soft = targets.shape().rank() == 2;
  const Shape expected = soft ? Shape{images, classes} : Shape{images};
  if (targets.shape() != expected)
    throw InputError(concat(soft ? "targets is " : "labels is ", targets.shape().str(), ", expected ", expected.str()));
  for (std::int64_t i = 0; i < images && !soft; ++i)
    if (const std::int32_t label = targets.data<std::int32_t>()[i]; label < 0 || label >= classes)
      throw InputError(
          concat("image ", i, " of the batch has label ", label, ", but the network has ", classes, " classes"));
}

Var class_losses(const LossCall& call) {
  const bool soft = call.targets.shape().rank() == 2;
  const Targets targets{soft ? Tensor() : call.targets, soft ? call.targets : Tensor(), call.settings.label_smoothing,
                        call.settings.smoothing};
  return call.settings.loss == LossKind::softmax ? softmax_cross_entropy(call.outputs, targets)
                                                 : sigmoid_cross_entropy(call.outputs, targets);
}

/// In the order of Task.
constexpr TaskRow kTasks[] = {{.task = Task::classify,
                               .targets = [](const ModelConfig&, std::int64_t images) { return Shape{images}; },
                               .require = require_classes_or_shares,
                               .losses = class_losses}};
static_assert(std::size(kTasks) == kWords<Task>.size());

}  // namespace

const TaskRow& row_of(Task task) { return kTasks[static_cast<std::size_t>(task)]; }

}  // namespace normlab
