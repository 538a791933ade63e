// Letters for captions inside pictures.
#pragma once

#include <cstdint>
#include <string_view>

#include "experiments/data/image.h"

namespace normlab {

inline constexpr std::int64_t kGlyphWidth = 6, kGlyphHeight = 8;  // pixels, with the gap to the next

/// Writes `text` with its upper left corner at (top, left), cut off where the image ends. Letters, digits and common
/// signs of ASCII; anything else is a question mark.
void draw_text(Image& image, std::int64_t top, std::int64_t left, std::string_view text,
               const std::uint8_t (&color)[3]);

}  // namespace normlab
