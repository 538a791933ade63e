// The largest sizes of a network: far above every model of the papers, and low enough that counts of parameters and
// multiply-adds fit 63 bits.
#pragma once

#include <cstdint>

#include "core/field.h"

namespace normlab::limits {

inline constexpr std::int64_t kSide = 1 << 16, kTokens = 1 << 16, kWidth = 1 << 16, kDepth = 1 << 10;
inline constexpr std::int64_t kChannels = 1 << 10, kMlp = 1 << 17, kClasses = 1 << 22;
inline constexpr std::int64_t kStages = 8, kRegisters = 1 << 10, kWindow = 256, kMlpRatio = 16;

/// For the row of a size (core/field.h).
constexpr Range sizes(std::int64_t most, std::int64_t least = 1) {
  return {.low = double(least), .high = double(most)};
}

}  // namespace normlab::limits
