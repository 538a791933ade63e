// Fetches pixels from anywhere in an image, one row at a time.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "experiments/lab/data/image.h"
#include "experiments/lab/data/ops/scratch.h"

namespace normlab {

/// Bytes after the last pixel that fetch_pixels() may read or write.
inline constexpr std::size_t kFetchMargin = 4;

/// Copies `count` three-byte pixels from `source + offsets[i]` with four-byte moves: the next pixel overwrites the
/// fourth byte, and the last one falls in the margin.
inline void fetch_pixels(const std::uint8_t* source, const std::int32_t* offsets, std::int64_t count,
                         std::uint8_t* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t pixel = 0;
    std::memcpy(&pixel, source + offsets[i], sizeof pixel);
    std::memcpy(out + 3 * i, &pixel, sizeof pixel);
  }
}

/// The image's pixels become the source of a new image of the same size. Images have fewer than 2^31 bytes.
class NearestRows {
 public:
  NearestRows(Image& image, const Fill& fill, OpScratch& scratch)
      : image_(image), scratch_(scratch), fill_(static_cast<std::int32_t>(image.pixels.size())) {
    // Stores the fill colour after the last pixel, so that it is fetched like any other pixel.
    image.pixels.resize(image.pixels.size() + kFetchMargin);
    std::copy(fill.begin(), fill.end(), image.pixels.begin() + fill_);
    image.pixels.swap(scratch.bytes);
    image.pixels.resize(scratch.bytes.size());
    scratch.offsets.resize(static_cast<std::size_t>(image.width));
  }
  ~NearestRows() { image_.pixels.resize(static_cast<std::size_t>(fill_)); }
  NearestRows(const NearestRows&) = delete;
  NearestRows& operator=(const NearestRows&) = delete;

  /// Row `y` of the result; `from(x)` returns the source column and row, inside or outside the image.
  template <class From>
  void write(std::int64_t y, From&& from) {
    const std::int64_t count = image_.width;
    const auto width = static_cast<std::int32_t>(image_.width), height = static_cast<std::int32_t>(image_.height);
    std::int32_t* offsets = scratch_.offsets.data();
    for (std::int64_t x = 0; x < count; ++x) {
      const std::pair<std::int32_t, std::int32_t> at = from(x);
      const bool inside = (at.first >= 0) & (at.first < width) & (at.second >= 0) & (at.second < height);
      const std::int32_t offset = (at.second * width + at.first) * 3;
      offsets[x] = inside ? offset : fill_;
    }
    fetch_pixels(scratch_.bytes.data(), offsets, count, image_.row(y));
  }

 private:
  Image& image_;
  OpScratch& scratch_;
  std::int32_t fill_;
};

}  // namespace normlab
