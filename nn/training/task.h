// What a network is trained for. Each task is a row of a table: its targets and its loss here, its metrics and checks
// in experiments/lab/descriptor/tasks.h, its evaluation in experiments/lab/train/tasks.h.
#pragma once

#include <span>

#include "core/ignored_label.h"
#include "nn/model/any_model.h"
#include "nn/model/model_config.h"
#include "nn/training/train_settings.h"

namespace normlab {

/// The loss of a shard: what the network made of its images, and their targets.
struct LossCall {
  const Var& outputs;
  const Tensor& targets;
  const StepSettings& settings;
  const Shard& shard;
  const Model& model;
  double weight;  // images over targets of the whole step
};

struct TaskRow {
  Task task;
  /// The shape of the i32 targets of a batch, image by image.
  Shape (*targets)(const ModelConfig& model, std::int64_t images);
  /// Checks targets in host memory, since device kernels cannot throw: InputError names the image and what is wrong.
  /// Returns how many targets the step's loss is a mean over.
  std::int64_t (*require)(const Tensor& targets, const ModelConfig& model, std::int64_t images);
  /// Losses [images]: of an image the sum over its targets times `weight`. So their mean over all images of a step is
  /// the mean over its targets. In an evaluation that of the targets themselves, whatever a training makes of them.
  Var (*losses)(const LossCall& call);
};
const TaskRow& row_of(Task task);

}  // namespace normlab
