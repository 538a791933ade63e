// A picture of 32x32 pixels, painted in integer arithmetic: the same bytes on every machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "core/random.h"

namespace normlab {

// --- random words and noise, in integer arithmetic as well

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

using Colour = std::array<int, 3>;  // levels of 255; write() clips them

class Canvas {
 public:
  static constexpr int kUnit = 8;  // coordinates per pixel
  static constexpr int kSide = 32;

  explicit Canvas(const Colour& ground) { pixels_.fill(ground); }

  /// Paints the points relative to the centre (cx, cy) for which inside(x, y) is true, with 4x4 samples per pixel. No
  /// such point is farther than `reach`. A pixel that is covered by half or more takes the mark, unless that is 0.
  template <class Inside>
  void paint(int cx, int cy, int reach, const Colour& colour, Inside inside, std::uint8_t mark = 0) {
    const int top = std::clamp((cy - reach) / kUnit, 0, kSide), bottom = std::clamp((cy + reach) / kUnit + 1, 0, kSide);
    const int left = std::clamp((cx - reach) / kUnit, 0, kSide), right = std::clamp((cx + reach) / kUnit + 1, 0, kSide);
    for (int y = top; y < bottom; ++y) {
      for (int x = left; x < right; ++x) {
        int covered = 0;
        for (int sample = 0; sample < 16; ++sample) {
          covered += inside(x * kUnit + sample % 4 * 2 + 1 - cx, y * kUnit + sample / 4 * 2 + 1 - cy) ? 1 : 0;
        }
        const auto place = static_cast<std::size_t>(y * kSide + x);
        for (std::size_t c = 0; c < 3; ++c) pixels_[place][c] += (colour[c] - pixels_[place][c]) * covered / 16;
        if (mark != 0 && covered >= 8) marks_[place] = mark;
      }
    }
  }

  /// [32, 32, 3] at `rgb`, with noise of this deviation on each value.
  void write(PictureDraws& draws, int noise, std::uint8_t* rgb) const {
    for (const Colour& pixel : pixels_)
      for (const int value : pixel) *rgb++ = static_cast<std::uint8_t>(std::clamp(value + draws.noise(noise), 0, 255));
  }

  /// [32, 32]
  const auto& marks() const { return marks_; }

 private:
  static constexpr auto kPixels = static_cast<std::size_t>(kSide * kSide);
  std::array<Colour, kPixels> pixels_{};
  std::array<std::uint8_t, kPixels> marks_{};
};

inline bool in_disc(int x, int y, int radius) { return x * x + y * y <= radius * radius; }

inline bool in_cross(int x, int y, int arm, int half_width) {
  const int across = std::min(std::abs(x), std::abs(y)), along = std::max(std::abs(x), std::abs(y));
  return across <= half_width && along <= arm;
}

}  // namespace normlab
