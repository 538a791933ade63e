// What a network is trained for. Each task is a row of a table: its targets and its loss here, its metrics and checks
// in experiments/descriptor/tasks.h, its evaluation in experiments/train/tasks.h.
#pragma once

#include <span>

#include "nn/context.h"
#include "nn/model_config.h"
#include "nn/train_settings.h"

namespace normlab {

/// classify: one class per image.
enum class Task : std::uint8_t { classify };
inline Task task_of(const ModelConfig&) { return Task::classify; }

/// The loss of a shard: what the network made of its images, and their targets.
struct LossCall {
  const Var& outputs;
  const Tensor& targets;
  const StepSettings& settings;
  const Context& context;
};

struct TaskRow {
  Task task;
  /// The shape of the i32 targets of a batch, image by image.
  Shape (*targets)(const ModelConfig& model, std::int64_t images);
  /// Checks targets in host memory, since device kernels cannot throw: InputError names the image and what is wrong.
  void (*require)(const Tensor& targets, const ModelConfig& model, std::int64_t images);
  /// Losses [images], whose mean over all images of a step is the step's loss.
  Var (*losses)(const LossCall& call);
};
const TaskRow& row_of(Task task);

}  // namespace normlab
