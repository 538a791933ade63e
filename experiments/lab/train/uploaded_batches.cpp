#include "experiments/lab/train/uploaded_batches.h"

#include "core/error.h"

namespace normlab {

UploadedBatches::UploadedBatches(const BatchSource& source, int data_threads, Engine& engine, ShardPool& pool,
                                 WorkClock* clock)
    : pipeline_(source, data_threads), engine_(engine), pool_(pool), clock_(clock) {}

void UploadedBatches::upload(std::int64_t step) {
  const WorkScope scope(clock_, WorkPart::data);
  const BatchSource::Batch batch = pipeline_.training(step, pool_);
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
  const BatchSource::Batch batch = pipeline_.training(step, pool_);
  return engine_.find_nonfinite(batch.images, batch.wanted());
}

}  // namespace normlab
