// Position tables learnt on one grid of patches, taken to another one: what loading weights for another image or patch
// size asks for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/resample.h"

namespace normlab {

/// Patches of an image; token y * width + x stands for patch (y, x).
struct Grid {
  std::int64_t height, width;
  std::int64_t size() const { return height * width; }
  bool operator==(const Grid&) const = default;
};

struct ResizedPositions {
  std::vector<float> table;  // [prefix + to.size(), dim]
  std::string done;          // for reports: "positions 14x14 -> 16x16 by bicubic_antialias, 1 prefix token kept"
};

/// `table` [prefix + from.size(), dim]: the first `prefix` rows (class token, registers) stay, the others are resampled
/// as an image, in double. timm does so with bicubic_antialias when it loads a state dict, with bilinear when it
/// imports an npz; Big Vision with corners. Equal grids: nothing changes, whatever `how`. InputError where the table
/// has another size or a grid no points.
ResizedPositions resize_positions(std::span<const float> table, std::int64_t dim, Grid from, Grid to,
                                  std::int64_t prefix, Resampling how);

}  // namespace normlab
