// The label of a pixel without a class.
#pragma once

#include <cstdint>

namespace normlab {

inline constexpr std::int32_t kIgnoredLabel = 255;

}  // namespace normlab
