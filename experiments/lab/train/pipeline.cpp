#include "experiments/lab/train/pipeline.h"

#include "core/start_thread.h"

namespace normlab {

BatchPipeline::BatchPipeline(const BatchSource& source, int threads) : source_(source) {
  if (threads > 0) producer_ = start_thread([this, threads] { produce(threads); });
}

BatchPipeline::~BatchPipeline() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (producer_.joinable()) producer_.join();
}

void BatchPipeline::produce(int threads) {
  ShardPool pool(threads);
  const auto blocks = [&](std::int64_t count, FunctionRef<void(std::int64_t)> body) { pool.for_blocks(count, body); };
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] {
      const bool wanted = made_ < source_.steps().total || made_ == used_;  // beyond the end only if requested
      return stop_ || (started_ && made_ - used_ < kSlots && wanted);
    });
    if (stop_) return;
    Slot& to = slot(made_);
    const std::int64_t step = made_;
    making_ = true;
    lock.unlock();
    to.error = nullptr;
    try {
      to.batch = source_.training(step, to.buffer, blocks);
    } catch (...) {
      to.error = std::current_exception();
    }
    lock.lock();
    making_ = false;
    ++made_;
    changed_.notify_all();
  }
}

BatchSource::Batch BatchPipeline::training(std::int64_t step, ShardPool& pool) {
  if (!producer_.joinable()) {
    return source_.training(step, slots_[0].buffer, [&](std::int64_t count, FunctionRef<void(std::int64_t)> body) {
      pool.for_blocks(count, body);
    });
  }
  std::unique_lock lock(mutex_);
  if (!started_ || step < used_ || step > made_) {
    changed_.wait(lock, [&] { return !making_; });
    made_ = step;
  }
  started_ = true;
  used_ = step;
  changed_.notify_all();
  changed_.wait(lock, [&] { return made_ > step; });
  const Slot& ready = slot(step);
  if (ready.error) std::rethrow_exception(ready.error);
  return ready.batch;
}

}  // namespace normlab
