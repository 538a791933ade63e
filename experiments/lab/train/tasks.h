// What a training does for each task: the targets of its batches, and its evaluation.
#pragma once

#include <map>
#include <span>
#include <string>

#include "experiments/lab/metrics/correctness.h"
#include "experiments/lab/train/batches.h"
#include "experiments/lab/trials/trial_result.h"
#include "nn/training/task.h"

namespace normlab {

class Engine;

/// All `images` of a slice, which is the evaluation slice of `batches`.
struct SliceCall {
  Engine& engine;
  BatchSource& batches;
  const ImageSet& images;
  ShardPool& pool;
  const std::string& prefix;        // of the metrics' names
  Correctness* right;               // receives which images are answered correctly; null: not wanted
  EvaluatedSlice* facts = nullptr;  // receives these; null: not wanted
};

struct TaskTraining {
  Task task;
  /// Writes the target of an image, in the shape of TaskRow::targets, unless its transform makes it.
  void (*write_target)(const ImageSet& images, std::int64_t image, std::span<std::int32_t> target);
  /// The metrics of TaskRules, with the prefix. NonFiniteError names the first image without a finite result.
  std::map<std::string, double> (*evaluate)(const SliceCall& call);
};
const TaskTraining& training_of(Task task);

}  // namespace normlab
