// Training batches in the device's memory.
#pragma once

#include "experiments/lab/train/pipeline.h"
#include "experiments/lab/train/work_times.h"
#include "nn/training/engine.h"

namespace normlab {

/// The time for batches counts as WorkPart::data of `clock`, which may be null.
class UploadedBatches {
 public:
  /// All arguments must outlive it. `data_threads` as for BatchPipeline.
  UploadedBatches(const BatchSource& source, int data_threads, Engine& engine, ShardPool& pool, WorkClock* clock);
  /// The batch of `step`, valid until the next call. InputError if one of its images cannot be read.
  const Engine::DeviceBatch& take(std::int64_t step);
  /// Uploads the batch of `step` while the device computes. An unreadable image is reported by take().
  void prepare(std::int64_t step);
  /// Repeats the batch of `step` after a step that was not finite: see Engine::find_nonfinite().
  NonFinite find_nonfinite(std::int64_t step);

 private:
  void upload(std::int64_t step);

  BatchPipeline pipeline_;
  Engine& engine_;
  ShardPool& pool_;
  WorkClock* const clock_;
  Engine::DeviceBatch batch_;
  std::int64_t prepared_ = -1;  // the step of batch_, until it is taken
};

}  // namespace normlab
