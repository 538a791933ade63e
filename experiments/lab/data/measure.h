// Properties of a set of images: sizes, classes, mean and deviation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/lab/data/image_set.h"

namespace normlab {

struct ImageMeasures {
  std::int64_t images = 0;                        // decodable images
  std::array<std::int64_t, 3> height{}, width{};  // least, median (the lower of two), most
  std::int64_t bytes = 0;                         // of their files; of the pixels if the set is in memory
  std::vector<std::int64_t> class_counts;         // [num_classes]
  std::vector<double> mean, deviation;            // per channel over all pixels, in units where 255 is 1; exact sums
  std::vector<BadImage> bad_images;               // ascending keys; includes images already omitted from the set
  std::vector<std::string> digests;               // [images.size()], of size and pixels; "" of images that are bad
  std::int64_t gray16 = 0;                        // images of 16-bit grayscale
  int least_gray16 = 255, most_gray16 = 0;        // of the upper bytes of their pixels
};

/// Sentences on images of 16-bit grayscale, with advice if they use few of the levels of their upper byte; "" without.
std::string words_on_gray16(const std::vector<const ImageMeasures*>& slices);

/// Decodes every image once. Independent of the number of threads.
ImageMeasures measure_images(const ImageSet& images, int threads);

}  // namespace normlab
