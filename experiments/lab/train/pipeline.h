// Prepares the batches of the next steps during a training step, and brings them to the device.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

#include "experiments/lab/train/batches.h"
#include "experiments/lab/train/work_times.h"
#include "nn/training/engine.h"

namespace normlab {

/// The batches of a BatchSource in order, prepared by separate threads: at most two are waiting besides the one in use.
/// Their bits depend neither on the number of threads nor on the first step.
class BatchPipeline {
 public:
  /// `source` must outlive it, and `device`: see BatchBuffer::use(). threads 0: each batch is made in the call that
  /// requests it.
  BatchPipeline(const BatchSource& source, int threads, Device* device = nullptr);
  ~BatchPipeline();
  BatchPipeline(const BatchPipeline&) = delete;
  BatchPipeline& operator=(const BatchPipeline&) = delete;

  /// The batch of `step`, valid until the next call. A request out of order discards the prepared batches. Throws the
  /// error of making this batch, such as an InputError with the image's name. `pool` is used only without threads.
  BatchSource::Batch training(std::int64_t step, ShardPool& pool);

 private:
  static constexpr std::int64_t kSlots = 3;
  struct Slot {
    BatchBuffer buffer;
    BatchSource::Batch batch;
    std::exception_ptr error;
  };
  void produce(int threads);
  Slot& slot(std::int64_t step) { return slots_[static_cast<std::size_t>(step % kSlots)]; }

  const BatchSource& source_;
  std::array<Slot, kSlots> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  /// The slots hold steps used_ to made_ - 1; the first is in use. If `making_`, made_ is being prepared.
  std::int64_t used_ = 0, made_ = 0;
  bool making_ = false, started_ = false, stop_ = false;
  std::thread producer_;
};

/// Training batches in the device's memory. The time for batches counts as WorkPart::data of `clock`, which may be null.
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
  BatchSource::Batch made(std::int64_t step);
  void upload(std::int64_t step);

  BatchPipeline pipeline_;
  Engine& engine_;
  ShardPool& pool_;
  WorkClock* const clock_;
  Engine::DeviceBatch batch_;
  std::int64_t prepared_ = -1;  // the step of batch_, until it is taken
};

}  // namespace normlab
