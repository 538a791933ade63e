// Resizes learnt position tables to another grid, for loading weights at another image or patch size.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/resample.h"
#include "nn/model/vit_config.h"

namespace normlab {

/// The patches of an image; token y * width + x is patch (y, x).
struct PatchGrid {
  std::int64_t height, width;
  std::int64_t size() const { return height * width; }
  bool operator==(const PatchGrid&) const = default;
};
std::string to_string(const PatchGrid& grid);  // "14x14": height, width
inline PatchGrid patch_grid(const ViTConfig& c) {
  return {c.image_size[0] / c.patch_size, c.image_size[1] / c.patch_size};
}

/// In which eva02's rotary positions count patches.
inline PatchGrid reference_grid(const ViTConfig& c) {
  const auto& [height, width] = c.rotary.grid;
  return height > 0 ? PatchGrid{height, width} : patch_grid(c);
}

struct ResizedPositions {
  std::vector<float> table;  // [prefix + to.size(), dim]
  std::string done;          // for reports: "positions 14x14 -> 16x16 by bicubic_antialias, 1 prefix token kept"
};

/// `table` [prefix + from.size(), dim]: keeps the first `prefix` rows (class token, registers) and resamples the
/// others as an image, in double. timm uses bicubic_antialias for a state dict and bilinear for an npz; Big Vision
/// uses corners. Equal grids change nothing, whatever `method`. Throws InputError if the table has another size or a grid
/// is empty.
ResizedPositions resize_positions(std::span<const float> table, std::int64_t dim, PatchGrid from, PatchGrid to,
                                  std::int64_t prefix, Resampling method);

}  // namespace normlab
