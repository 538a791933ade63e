// From stored pixels to a network's input: crop, flip, normalise.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "experiments/data/image_set.h"
#include "experiments/descriptor/config.h"

namespace normlab {

/// What a pixel becomes, by channel and value: (value / 255 - mean) / std in double, then rounded to T. A channel whose
/// deviation is 0 is only shifted. Mean and deviation are the training slice's, in evaluation too.
template <class T>
class PixelTable {
 public:
  PixelTable(const std::vector<double>& mean, const std::vector<double>& std);  // both [channels]
  const T* channel(std::int64_t c) const { return values_.data() + c * 256; }

 private:
  std::vector<T> values_;  // [channels, 256]
};

/// Keys of all images' crops and flips, for one seed: stream "augment", the image's key. Made once a trial.
std::vector<StreamKey> augment_keys(const ImageSet& images, std::uint64_t seed);

/// One training image, [height, width, channels] at `out`. Zeros (black pixels, before normalisation) around the image,
/// a crop of the original size, a flip: draws at position 0 of `key`, step `epoch`; words 0, 1 and 2 are row, column
/// and flip. Nothing else enters, so any thread may make any image.
template <class T>
void make_image(const ImageSet& images, std::int64_t index, const AugmentConfig& augment, StreamKey key,
                std::int64_t epoch, const PixelTable<T>& table, T* out);

/// The same for evaluation: normalised only.
template <class T>
void make_image(const ImageSet& images, std::int64_t index, const PixelTable<T>& table, T* out);

}  // namespace normlab
