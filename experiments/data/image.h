// One decoded image of any size.
#pragma once

#include <cstdint>
#include <vector>

namespace normlab {

/// RGB, [height, width, 3], a byte a value. Its memory is kept when it takes another image.
struct Image {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;

  static constexpr std::int64_t kChannels = 3;
  void resize(std::int64_t new_height, std::int64_t new_width) {
    height = new_height;
    width = new_width;
    pixels.resize(static_cast<std::size_t>(height * width * kChannels));
  }
  std::uint8_t* row(std::int64_t y) { return pixels.data() + y * width * kChannels; }
  const std::uint8_t* row(std::int64_t y) const { return pixels.data() + y * width * kChannels; }
};

}  // namespace normlab
