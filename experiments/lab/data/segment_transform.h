// The transforms of a training image together with its mask (Segmenter, Strudel et al. 2021, section 4.1, as in
// mmsegmentation): scale -> crop -> flip -> photometric distortion -> normalise -> pad.
#pragma once

#include "experiments/lab/data/mask.h"
#include "experiments/lab/data/train_transform.h"

namespace normlab {

/// `image` scaled so that it fits: its shorter side becomes `shorter`, or less where its longer side would pass
/// `longest` (0: no limit). Halves are rounded up. InputError, beginning with `where`, for more than kMaxImagePixels.
ImageSize fitted_size(ImageSize image, std::int64_t shorter, std::int64_t longest, const std::string& where);

/// The label nearest to the centre of each pixel of [height, width]. `out` must not be `in`.
void resize_mask(const Mask& in, std::int64_t height, std::int64_t width, Mask& out);

/// The share that the most frequent label has of a box's labelled pixels; 1 without any.
double largest_share(const Mask& mask, const Box& box);

/// Brightness within 32 levels, contrast and saturation by 0.5 to 1.5, hue within a tenth of the circle, each with
/// probability one half; contrast is the second or the last.
void distort(Image& image, const AugmentDraws& draws);

/// Draws are named and keyed as those of TrainTransform.
class SegmentTransform {
 public:
  /// `images` must outlive it and have masks. InputError for channels other than the model's.
  SegmentTransform(const TrialConfig& config, const ImageSet& images);

  /// [height, width, channels] at `out` and [height, width] at `labels`; T is float or double. Where a scaled image is
  /// smaller than the model's, its right and bottom are 0 and ignored. InputError names a bad image or mask.
  template <class T>
  void operator()(std::int64_t index, std::int64_t epoch, std::int64_t repeat, TransformScratch& scratch, T* out,
                  std::int32_t* labels) const;

 private:
  Box crop(const Mask& mask, const AugmentDraws& draws) const;

  const ImageSet& images_;
  const SegmentAugmentConfig config_;
  const bool flip_;
  const ImageSize size_;
  const std::int64_t channels_;
  const std::vector<StreamKey> keys_;
  const PixelTables tables_;
};

}  // namespace normlab
