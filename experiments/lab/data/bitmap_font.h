// Text for captions in images.
#pragma once

#include <cstdint>
#include <string_view>

#include "experiments/lab/data/image.h"

namespace normlab {

inline constexpr std::int64_t kGlyphWidth = 6, kGlyphHeight = 8;  // in pixels, including the gap

/// The upper left corner is at (top, left); text is clipped to the image. ASCII letters, digits and common signs;
/// others become question marks.
void draw_text(Image& image, std::int64_t top, std::int64_t left, std::string_view text,
               const std::uint8_t (&color)[3]);

}  // namespace normlab
