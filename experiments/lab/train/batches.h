// Selects the images of a step and makes a batch of them.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/shards.h"
#include "experiments/lab/data/dataset.h"
#include "experiments/lab/data/mix.h"
#include "experiments/lab/data/segment_transform.h"
#include "experiments/lab/data/train_transform.h"
#include "experiments/lab/descriptor/step_count.h"
#include "experiments/lab/train/stored_features.h"

namespace normlab {

class Device;

/// InputError if the images have other classes than the model: more, or fewer without dataset.allow_absent_classes.
void require_classes(const TrialConfig& config, const ImageSet& train);
/// The same before images are decoded; InputError also for a warm-up that is longer than the training.
void require_fitting(const TrialConfig& config, const FoundSlices& found);

/// InputError if the model's text tower has fewer numbers than the vocabulary.
void require_vocabulary(const TrialConfig& config, const Tokeniser& tokeniser);

/// Images that an evaluation passes through the network at a time.
inline constexpr std::int64_t kEvaluatedAtOnce = 512;

/// The same for a trial with fewer images; 0 for windows of segmentation, which are no more than the images of a step.
std::int64_t evaluated_at_once(const TrialConfig& config, const DataPair& data);

/// One image of a batch: its index, and which copy of it in this epoch (repeated augmentation).
struct BatchSample {
  std::int64_t image = 0, repeat = 0;
  bool operator==(const BatchSample&) const = default;
};

/// Memory of one batch, reused when it is filled again.
class BatchBuffer {
 public:
  /// Images will lie in the device's upload_buffer(); null: in the CPU's.
  void use(Device* device) { device_ = device; }

 private:
  friend class BatchSource;
  Device* device_ = nullptr;
  std::shared_ptr<std::byte[]> images_;
  std::size_t images_bytes_ = 0;
  std::vector<std::byte> unmixed_, targets_;
  std::vector<std::int32_t> labels_;
  std::vector<BatchSample> samples_;
};

/// Batches of one trial. Order, augmentation and mixing are keyed by (seed, epoch or step, image), so any thread can
/// request any step at any time, with the same result.
class BatchSource {
 public:
  /// `train` and `eval` must outlive it. InputError if images do not fit the model and are not resized, and
  /// as require_classes().
  BatchSource(const TrialConfig& config, const ImageSet& train, const ImageSet& eval, DType dtype);

  /// Views of a BatchBuffer, valid until the buffer is filled again.
  struct Batch {
    Tensor images;   // [B, H, W, C], normalised; or stored features [B, width]
    Tensor labels;   // i32, in the shape of TaskRow::targets: [B], or [B, H, W]
    Tensor targets;  // [B, classes] in the type of statistics if images are mixed; otherwise empty
    /// The input of the loss: targets if present, otherwise labels.
    const Tensor& wanted() const { return targets ? targets : labels; }
  };

  const TrialConfig& config() const { return config_; }
  const PixelTables& tables() const { return transform_.tables(); }
  const StepCount& steps() const { return steps_; }
  /// The images of optimisation step `step` (from 0), in batch order. Repeats of an image are in one batch but not
  /// adjacent, where mixing would pair them.
  std::vector<BatchSample> samples(std::int64_t step) const;
  /// The batch of `step`. Thread-safe if each thread has its own buffer.
  Batch training(std::int64_t step, BatchBuffer& buffer, ShardPool& pool) const;
  /// Evaluation images first .. first + count, in order.
  Batch evaluation(std::int64_t first, std::int64_t count, BatchBuffer& buffer, ShardPool& pool) const;

  /// From now on batches have pixels only in the images that `marks` says, given the number of images and whether it is a
  /// training step: those that this process reads. Targets are complete.
  using Images = std::function<std::vector<bool>(std::int64_t images, bool training)>;
  void make_only(Images marks) { wanted_ = std::move(marks); }
  /// From now on batches hold these features of the slices instead of images. Either may be null.
  void use_features(std::shared_ptr<const StoredFeatures> train, std::shared_ptr<const StoredFeatures> eval);

  /// The same in a buffer that the next call reuses.
  Batch training(std::int64_t step, ShardPool& pool) { return training(step, buffer_, pool); }
  Batch evaluation(std::int64_t first, std::int64_t count, ShardPool& pool) {
    return evaluation(first, count, buffer_, pool);
  }
  /// Training images first .. first + count in the order of the slice, as in the first epoch.
  Batch unshuffled(std::int64_t first, std::int64_t count, ShardPool& pool);

 private:
  using Order = std::shared_ptr<const std::vector<std::int64_t>>;
  Order order(std::int64_t epoch) const;
  template <class T>
  void fill_training(std::int64_t step, Batch& batch, BatchBuffer& buffer, ShardPool& pool,
                     const std::vector<bool>& wanted) const;
  template <class T>
  void fill_evaluation(std::int64_t first, const Batch& batch, ShardPool& pool) const;
  Batch batch_of(std::int64_t count, BatchBuffer& buffer, const StoredFeatures* features) const;
  Batch of_samples(std::int64_t step, BatchBuffer& buffer, ShardPool& pool, const std::vector<bool>& wanted) const;
  std::vector<bool> wanted(std::int64_t images, bool training) const;
  template <class ImageOf>
  void write_targets(const ImageSet& set, const Batch& batch, ImageOf&& image_of) const;

  const TrialConfig& config_;
  const ImageSet &train_, &eval_;
  StepCount steps_;
  DType dtype_;
  std::array<std::int64_t, 2> size_;
  TrainTransform transform_;
  std::optional<SegmentTransform> segment_transform_;  // of images with masks
  EvalTransform eval_transform_;
  mutable ScratchPool scratch_;
  mutable std::mutex order_mutex_;
  mutable std::array<std::pair<std::int64_t, Order>, 2> orders_;  // of two epochs, for a pipeline at a boundary
  std::shared_ptr<const StoredFeatures> train_features_, eval_features_;
  Images wanted_;  // null: all
  BatchBuffer buffer_;
};

}  // namespace normlab
