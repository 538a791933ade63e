// Random words and noise for generated images, in integer arithmetic: the same bytes on every machine.
#pragma once

#include <array>
#include <cstdint>

#include "core/random.h"

namespace normlab {

/// Keyed by position, so that images are independent.
class PictureDraws {
 public:
  PictureDraws(StreamKey key, std::int64_t index) : key_(key), index_(static_cast<std::uint64_t>(index)) {}
  std::uint32_t word() {
    if (used_ == 4) {
      words_ = draw(key_, position_++, index_);
      used_ = 0;
    }
    return words_[used_++];
  }
  /// Uniform in [low, high].
  int between(int low, int high) {
    return low + static_cast<int>(below(word(), static_cast<std::uint32_t>(high - low + 1)));
  }
  /// Nearly normal: the sum of a word's four bytes has deviation 147.8.
  int noise(int deviation) {
    const std::uint32_t w = word();
    const int sum = static_cast<int>((w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24)) - 510;
    return sum * deviation / 148;
  }

 private:
  StreamKey key_;
  std::uint64_t index_, position_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
};

}  // namespace normlab
