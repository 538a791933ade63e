// From stored pixels to a network's input: padded crop, flip, normalise. train_transform.h has the whole chain.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/random.h"
#include "experiments/data/draws.h"
#include "experiments/data/image.h"
#include "experiments/data/image_set.h"
#include "experiments/descriptor/config.h"

namespace normlab {

/// What a pixel becomes, by channel and value: (value / 255 - mean) / std in double, then rounded to T. A channel whose
/// deviation is 0 is only shifted. Mean and deviation are the training slice's, in evaluation too.
template <class T>
class PixelTable {
 public:
  /// Both [channels]. InputError where a pixel would not be finite in every type of activations.
  PixelTable(const std::vector<double>& mean, const std::vector<double>& std);
  const T* channel(std::int64_t c) const { return values_.data() + c * 256; }

 private:
  std::vector<T> values_;  // [channels, 256]
};

/// In both types that an image is made in.
struct PixelTables {
  PixelTable<float> narrow;
  PixelTable<double> wide;
  PixelTables(const std::vector<double>& mean, const std::vector<double>& std) : narrow(mean, std), wide(mean, std) {}
  template <class T>
  const PixelTable<T>& in() const {
    if constexpr (std::is_same_v<T, double>)
      return wide;
    else
      return narrow;
  }
};

/// Keys of all images' draws, for one seed: stream "augment", the image's key. Made once a trial.
std::vector<StreamKey> augment_keys(const ImageSet& images, std::uint64_t seed);

/// One training image that needs no more than a padded crop and a flip, [height, width, channels] at `out`. Zeros
/// (black pixels, before normalisation) around the image, a crop of the original size, a flip: words 0, 1 and 2 of
/// DrawName::crop_and_flip are row, column and flip.
template <class T>
void make_image(const ImageSet& images, std::int64_t index, const AugmentConfig& augment, const AugmentDraws& draws,
                const PixelTable<T>& table, T* out);

/// The same for evaluation: normalised only.
template <class T>
void make_image(const ImageSet& images, std::int64_t index, const PixelTable<T>& table, T* out);

/// What a padded crop and a flip do to an image of any origin; black where nothing of it is.
void move_image(const Image& in, const AugmentConfig& augment, const AugmentDraws& draws, Image& out);

/// The first `channels` channels of an image, normalised, at `out`.
template <class T>
void normalise_image(const Image& in, std::int64_t channels, const PixelTable<T>& table, T* out);

}  // namespace normlab
