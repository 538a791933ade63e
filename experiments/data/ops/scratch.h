// Memory of the operations on one image, kept from one image to the next.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "experiments/data/image.h"

namespace normlab {

/// A value a channel, where the image has none.
using Fill = std::array<std::uint8_t, Image::kChannels>;

/// One a thread. Nothing in it outlives an operation.
struct OpScratch {
  std::vector<std::uint8_t> bytes;    // the image as it was, or rows of it
  std::vector<std::uint8_t> taps;     // neighbours of a row's pixels
  std::vector<std::int32_t> offsets;  // of a row's pixels in `bytes`
  std::vector<std::int32_t> columns;
  std::vector<double> numbers;
};

}  // namespace normlab
