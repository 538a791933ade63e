// Resizes learnt position tables to another grid, for loading weights at another image or patch size.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/resample.h"

namespace normlab {

/// The patches of an image; token y * width + x is patch (y, x).
struct Grid {
  std::int64_t height, width;
  std::int64_t size() const { return height * width; }
  bool operator==(const Grid&) const = default;
};

struct ResizedPositions {
  std::vector<float> table;  // [prefix + to.size(), dim]
  std::string done;          // for reports: "positions 14x14 -> 16x16 by bicubic_antialias, 1 prefix token kept"
};

/// `table` [prefix + from.size(), dim]: keeps the first `prefix` rows (class token, registers) and resamples the
/// others as an image, in double. timm uses bicubic_antialias for a state dict and bilinear for an npz; Big Vision
/// uses corners. Equal grids change nothing, whatever `how`. Throws InputError if the table has another size or a grid
/// is empty.
ResizedPositions resize_positions(std::span<const float> table, std::int64_t dim, Grid from, Grid to,
                                  std::int64_t prefix, Resampling how);

}  // namespace normlab
