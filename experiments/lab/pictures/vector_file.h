// Pictures in the formats that papers take. librsvg and cairo draw them; both are opened on first use.
#pragma once

#include <cstdint>
#include <string>

#include "core/words.h"
#include "experiments/lab/pictures/chart.h"

namespace normlab {

enum class PictureFormat : std::uint8_t { svg, pdf, png };
constexpr auto stated_words(PictureFormat) { return words<PictureFormat>("svg", "pdf", "png"); }

/// The bytes of the picture: PDF of its size with text as text, or PNG of 300 pixels per inch. EnvironmentError if
/// librsvg cannot be loaded.
std::string picture_bytes(const PictureFile& picture, PictureFormat format);

}  // namespace normlab
