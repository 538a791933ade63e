// Padded crop, flip and normalisation. train_transform.h has the whole chain.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "core/random.h"
#include "experiments/lab/data/draws.h"
#include "experiments/lab/data/image.h"
#include "experiments/lab/data/image_set.h"
#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// (value / 255 - mean) / std by channel and value, in double, rounded to T. A channel with deviation 0 is only
/// shifted. Mean and deviation are the training slice's, also in evaluation.
template <class T>
class PixelTable {
 public:
  /// Both [channels]. InputError if a normalised pixel would not be finite in every activation type.
  PixelTable(const std::vector<double>& mean, const std::vector<double>& std);
  const T* channel(std::int64_t c) const { return values_.data() + c * 256; }

 private:
  std::vector<T> values_;  // [channels, 256]
};

/// Tables for both types in which images are made.
struct PixelTables {
  std::tuple<PixelTable<float>, PixelTable<double>> tables;
  PixelTables(const std::vector<double>& mean, const std::vector<double>& std) : tables({mean, std}, {mean, std}) {}
  template <class T>
  const PixelTable<T>& in() const {
    return std::get<PixelTable<T>>(tables);
  }
};

/// Keys of all images' draws for one seed: stream "augment" and the image's key.
std::vector<StreamKey> augment_keys(const ImageSet& images, std::uint64_t seed);

/// A padded crop and a flip, in this order unless flip_first.
struct MoveSteps {
  std::int64_t crop_padding = 0;
  bool flip = false, flip_first = false;
  bool any() const { return crop_padding > 0 || flip; }
};

/// For images that need only a padded crop and a flip: [height, width, channels] at `out`. Pads with black (zero
/// before normalisation), crops to the original size and flips. Words 0, 1 and 2 of DrawName::crop_and_flip are
/// row, column and flip.
template <class T>
void make_image(const ImageSet& images, std::int64_t index, const MoveSteps& steps, const AugmentDraws& draws,
                const PixelTable<T>& table, T* out);

/// For evaluation: only normalised.
template <class T>
void make_image(const ImageSet& images, std::int64_t index, const PixelTable<T>& table, T* out);

/// Uncovered pixels are black.
void move_image(const Image& in, const MoveSteps& steps, const AugmentDraws& draws, Image& out);

/// The first `channels` channels, normalised, to `out`.
template <class T>
void normalise_image(const Image& in, std::int64_t channels, const PixelTable<T>& table, T* out);

}  // namespace normlab
