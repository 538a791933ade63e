// The whole way of a training image:
//   crop and resize -> padded crop -> flip -> RandAugment -> colour jitter -> normalise -> erase
// and then, in mix.h, mixing over the batch. This is timm's order; those of big_vision (crop, flip, RandAugment, range)
// and torchvision are parts of it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "experiments/data/augment.h"
#include "experiments/data/eval_transform.h"
#include "experiments/data/ops/randaugment.h"

namespace normlab {

/// Memory that making an image takes and the next one takes again. One a thread.
struct TransformScratch {
  ImageScratch images;
  Image sized, moved;
  OpScratch ops;
  std::vector<float> patch;
  std::vector<double> patch_double;
};

/// Scratch for as many threads as ask.
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

/// Makes training images of a model's size. Every draw is keyed by (seed, image key, epoch, repeat) and has a name, so
/// any thread may make any image, and a step that is switched off changes no draw of another.
class TrainTransform {
 public:
  /// `images` must outlive it. InputError, with the setting's name, where they do not fit: another size than the
  /// model's and no crop, or channels that a step has no use for.
  TrainTransform(const TrialConfig& config, const ImageSet& images);

  /// Image `index` as it is in `epoch`, its copy `repeat` there: [height, width, channels] at `out`. T is float or
  /// double. InputError where an encoded image cannot be read, or has another size than the model and no crop.
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
};

}  // namespace normlab
