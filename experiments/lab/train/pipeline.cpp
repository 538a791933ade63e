#include "experiments/lab/train/pipeline.h"

#include "core/backend.h"
#include "core/error.h"
#include "core/start_thread.h"

namespace normlab {

BatchPipeline::BatchPipeline(const BatchSource& source, int threads, Device* device) : source_(source) {
  for (Slot& slot : slots_) slot.buffer.use(device);
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
      to.batch = source_.training(step, to.buffer, pool);
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
  if (!producer_.joinable()) return source_.training(step, slots_[0].buffer, pool);
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

UploadedBatches::UploadedBatches(const BatchSource& source, int data_threads, Engine& engine, ShardPool& pool,
                                 WorkClock* clock)
    : pipeline_(source, data_threads, &engine.backend()), engine_(engine), pool_(pool), clock_(clock) {}

BatchSource::Batch UploadedBatches::made(std::int64_t step) {
  engine_.backend().wait_for_upload(Upload::images);  // of the batch whose place this one takes
  return pipeline_.training(step, pool_);
}

void UploadedBatches::upload(std::int64_t step) {
  const WorkScope scope(clock_, WorkPart::data);
  const BatchSource::Batch batch = made(step);
  batch_ = engine_.upload(batch.images, batch.wanted());
  prepared_ = step;
}

const Engine::DeviceBatch& UploadedBatches::take(std::int64_t step) {
  if (prepared_ != step) upload(step);
  prepared_ = -1;
  return batch_;
}

void UploadedBatches::prepare(std::int64_t step) {
  try {
    upload(step);
  } catch (const InputError&) {  // take() meets it again
  }
}

NonFinite UploadedBatches::find_nonfinite(std::int64_t step) {
  prepared_ = -1;
  const BatchSource::Batch batch = made(step);
  return engine_.find_nonfinite(batch.images, batch.wanted());
}

}  // namespace normlab
