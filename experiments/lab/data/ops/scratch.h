// Reusable memory for operations on one image.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "experiments/lab/data/image.h"

namespace normlab {

/// One value per channel for pixels outside the image.
using Fill = std::array<std::uint8_t, Image::kChannels>;

/// One per thread. No operation relies on its previous contents.
struct OpScratch {
  std::vector<std::uint8_t> bytes;    // the original image, or rows of it
  std::vector<std::uint8_t> taps;     // neighbours of a row's pixels
  std::vector<std::int32_t> offsets;  // of a row's pixels in `bytes`
  std::vector<std::int32_t> columns;
  std::vector<double> numbers;
};

}  // namespace normlab
