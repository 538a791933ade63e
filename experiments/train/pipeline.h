// Makes the batches of the next steps while a step trains.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

#include "experiments/train/batches.h"

namespace normlab {

/// The batches of a BatchSource in turn, made ahead on threads of its own: at most two that wait, beside the one in
/// use. They are the same to the bit whatever the number of threads, and whichever step is the first.
class BatchPipeline {
 public:
  /// `source` must outlive it. threads 0: nothing is made ahead, but in the call that asks for it.
  BatchPipeline(const BatchSource& source, int threads);
  ~BatchPipeline();
  BatchPipeline(const BatchPipeline&) = delete;
  BatchPipeline& operator=(const BatchPipeline&) = delete;

  /// The batch of `step`, valid until the next call. A step that does not follow the last one is made anew, and what
  /// was made ahead is dropped. Throws what making this very batch threw: an InputError with the image's name. `pool`
  /// works only without threads.
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
  /// Steps used_ to made_ - 1 are in their slots, the first of them in use; made_ is being made where `making_`.
  std::int64_t used_ = 0, made_ = 0;
  bool making_ = false, started_ = false, stop_ = false;
  std::thread producer_;
};

}  // namespace normlab
