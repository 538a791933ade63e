// Text for captions in images.
#pragma once

#include <cstdint>
#include <string_view>

#include "experiments/data/image.h"

namespace normlab {

inline constexpr std::int64_t kGlyphWidth = 6, kGlyphHeight = 8;  // in pixels, including the gap

/// Draws `text` with its upper left corner at (top, left), clipped to the image. Supports ASCII letters, digits and
/// common signs; other characters become question marks.
void draw_text(Image& image, std::int64_t top, std::int64_t left, std::string_view text,
               const std::uint8_t (&color)[3]);

}  // namespace normlab
