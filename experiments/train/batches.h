// Which images a step sees, and how they become a batch.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "core/function_ref.h"
#include "core/shards.h"
#include "experiments/data/dataset.h"
#include "experiments/data/mix.h"
#include "experiments/data/train_transform.h"
#include "experiments/descriptor/step_count.h"

namespace normlab {

/// InputError where the images have other classes than the model: more of them, or fewer without
/// dataset.allow_absent_classes.
void require_classes(const TrialConfig& config, const ImageSet& train);

/// One image of a batch: its index, and which of its copies in this epoch it is (repeated augmentation).
struct BatchSample {
  std::int64_t image = 0, repeat = 0;
  bool operator==(const BatchSample&) const = default;
};

/// Memory of one batch. It keeps what it has when it takes another one.
class BatchBuffer {
 private:
  friend class BatchSource;
  std::vector<std::byte> images_, unmixed_, targets_;
  std::vector<std::int32_t> labels_;
  std::vector<BatchSample> samples_;
};

/// Batches of one trial. Order, augmentation and mixing are keyed by (seed, epoch or step, image), so any step can be
/// asked for at any time, by any thread, and is the same.
class BatchSource {
 public:
  /// `train` and `eval` must outlive it. InputError where images do not fit the model and nothing resizes them, and
  /// as require_classes.
  BatchSource(const TrialConfig& config, const ImageSet& train, const ImageSet& eval, DType dtype);

  /// Something that calls its second argument once with each of 0 to its first argument - 1, on threads of its choice,
  /// and returns when all calls have: ShardPool::for_blocks, or a loop.
  using Blocks = FunctionRef<void(std::int64_t, FunctionRef<void(std::int64_t)>)>;

  /// Views of a BatchBuffer, valid until it takes another batch.
  struct Batch {
    Tensor images;   // [B, H, W, C], normalised
    Tensor labels;   // i32 [B]
    Tensor targets;  // [B, classes] in the type of statistics where images are mixed; else empty
    /// What a loss compares with: targets where there are any.
    const Tensor& wanted() const { return targets ? targets : labels; }
  };

  const StepCount& steps() const { return steps_; }
  /// The images of 0-based optimisation step `step`, in the batch's order. Repeats of one image are in one batch but
  /// not side by side, where mixing would pair them.
  std::vector<BatchSample> samples(std::int64_t step) const;
  /// The batch of `step`. Safe to call from several threads, each with a buffer of its own.
  Batch training(std::int64_t step, BatchBuffer& buffer, Blocks blocks) const;
  /// Evaluation images first .. first + count, in their order.
  Batch evaluation(std::int64_t first, std::int64_t count, BatchBuffer& buffer, Blocks blocks) const;

  /// The same on the threads of a pool, into a buffer that the next call reuses.
  Batch training(std::int64_t step, ShardPool& pool);
  Batch evaluation(std::int64_t first, std::int64_t count, ShardPool& pool);

 private:
  using Order = std::shared_ptr<const std::vector<std::int64_t>>;
  Order order(std::int64_t epoch) const;
  template <class T>
  void fill_training(std::int64_t step, Batch& batch, BatchBuffer& buffer, Blocks blocks) const;
  template <class T>
  void fill_evaluation(std::int64_t first, const Batch& batch, Blocks blocks) const;
  Batch batch_of(std::int64_t count, BatchBuffer& buffer) const;

  const TrialConfig& config_;
  const ImageSet &train_, &eval_;
  StepCount steps_;
  DType dtype_;
  std::array<std::int64_t, 2> size_;
  TrainTransform transform_;
  EvalTransform eval_transform_;
  mutable ScratchPool scratch_;
  mutable std::mutex order_mutex_;
  mutable std::array<std::pair<std::int64_t, Order>, 2> orders_;  // of two epochs: a pipeline works in both at an end
  BatchBuffer buffer_;
};

}  // namespace normlab
