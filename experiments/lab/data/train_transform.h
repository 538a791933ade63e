// The transforms of a training image:
//   crop and resize -> padded crop -> flip -> policy -> colour jitter -> normalise -> erase
// then mixing over the batch (mix.h). The policy is RandAugment, AutoAugment or TrivialAugment. This is timm's order;
// those of big_vision (crop, flip, RandAugment, range) and torchvision are subsets of it. augment.order exchanges padded
// crop, flip and policy.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "experiments/lab/data/augment.h"
#include "experiments/lab/data/eval_transform.h"
#include "experiments/lab/data/mask.h"
#include "experiments/lab/data/ops/autoaugment.h"
#include "experiments/lab/data/ops/randaugment.h"

namespace normlab {

/// Reusable memory for making images. One per thread.
struct TransformScratch {
  ImageScratch images;
  Image sized, moved;
  Mask whole_mask, mask;
  OpScratch ops;
  std::tuple<std::vector<float>, std::vector<double>> patch;
};

class ScratchPool {
 public:
  class Lease {
   public:
    explicit Lease(ScratchPool& pool);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    TransformScratch& operator*() const { return *scratch_; }

   private:
    ScratchPool& pool_;
    std::unique_ptr<TransformScratch> scratch_;
  };

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<TransformScratch>> free_;
};

/// Every draw is named and keyed by (seed, image key, epoch, repeat), so any thread may make any image, and disabling a
/// step does not change another step's draws.
class TrainTransform {
 public:
  /// `images` must outlive it. InputError, with the setting's name: a size other than the model's without a crop, or
  /// channels that a step cannot use.
  TrainTransform(const TrialConfig& config, const ImageSet& images);

  /// [height, width, channels] at `out`; T is float or double. InputError if an encoded image cannot be read, or if its
  /// size differs from the model's without a crop.
  template <class T>
  void operator()(std::int64_t index, std::int64_t epoch, std::int64_t repeat, TransformScratch& scratch, T* out) const;

  const PixelTables& tables() const { return tables_; }

 private:
  bool needs_rgb() const;
  /// The image at the model's size, in scratch.sized or scratch.images.decoded.
  Image& sized(std::int64_t index, const AugmentDraws& draws, TransformScratch& scratch) const;
  ResizeMethod resize_method(const AugmentDraws& draws) const;
  Box box(ImageSize image, const AugmentDraws& draws) const;

  const ImageSet& images_;
  const AugmentConfig augment_;
  const EvalTransformConfig eval_;
  const ImageSize size_;
  const std::int64_t channels_;
  std::vector<StreamKey> keys_;
  const PixelTables tables_;
  RandAugment randaugment_;
  AutoAugment autoaugment_;
  TrivialAugment trivialaugment_;
  MoveSteps before_, after_;  // the policy
};

}  // namespace normlab
