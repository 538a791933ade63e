// What a set of images is like: sizes, classes, mean and deviation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/data/image_set.h"

namespace normlab {

struct ImageMeasures {
  std::int64_t images = 0;                        // that can be decoded
  std::array<std::int64_t, 3> height{}, width{};  // least, median (the lower one of two), most
  std::int64_t bytes = 0;                         // of their files; of the pixels where the set is in memory
  std::vector<std::int64_t> class_counts;         // [num_classes]
  std::vector<double> mean, deviation;            // of each channel over all pixels, where 255 is 1; exact sums
  std::vector<BadImage> bad_images;               // ascending keys; among them those the set left out itself
};

/// Decodes every image once. The same for any number of threads.
ImageMeasures measure_images(const ImageSet& images, int threads);

}  // namespace normlab
