// Which images a step sees, and how they become a batch.
#pragma once

#include <vector>

#include "core/shards.h"
#include "experiments/data/augment.h"
#include "experiments/data/dataset.h"

namespace normlab {

/// Steps of a training: a pure function of settings and the number of training images. An epoch has floor(images /
/// batch_size) steps, with drop_last false ceil; epochs, warm-up and evaluations are counted in those. A length given
/// in images is round(images / batch_size) steps whatever an epoch has (90 times ImageNet's 1,281,167 at batch 1024:
/// 112,603).
struct StepCount {
  std::int64_t per_epoch = 0, total = 0, warmup = 0;
  std::int64_t eval_every = 0;  // steps between two evaluations; 0: only at the end
};
/// InputError where the training set is smaller than a batch that may not be cut, nothing would be trained, or the
/// cooldown is longer than the training.
StepCount count_steps(const TrainConfig& train, std::int64_t images);

/// Batches of one trial. Order and augmentation are keyed by (seed, epoch, image), so any step can be asked for at any
/// time.
class BatchSource {
 public:
  /// `train` and `eval` must outlive it.
  BatchSource(const TrialConfig& config, const ImageSet& train, const ImageSet& eval, DType dtype);

  const StepCount& steps() const { return steps_; }
  /// The batch of 0-based optimisation step `step`; views of buffers that the next call reuses.
  struct Batch {
    Tensor images;  // [B, H, W, C], normalised
    Tensor labels;  // i32 [B]
  };
  Batch training(std::int64_t step, ShardPool& pool);
  /// Evaluation images first .. first + count, in their order.
  Batch evaluation(std::int64_t first, std::int64_t count, ShardPool& pool);

 private:
  Batch batch_of(const ImageSet& set, std::int64_t count);
  template <class T>
  void fill(const Batch& batch, const ImageSet& set, bool augmented, std::int64_t epoch, ShardPool& pool);

  const TrialConfig& config_;
  const ImageSet &train_, &eval_;
  StepCount steps_;
  DType dtype_;
  std::vector<StreamKey> augment_keys_;
  PixelTable<float> table_;
  PixelTable<double> table_double_;
  std::vector<std::int64_t> order_, chosen_;
  std::int64_t order_epoch_ = -1;
  std::vector<std::byte> pixels_;
  std::vector<std::int32_t> labels_;
};

}  // namespace normlab
