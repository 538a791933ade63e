// "shapes": images generated from a seed. Ten classes describe the relation of a disc and a cross: aligned along one of
// four directions, near or far, or one on top of the other. Colours and brightness carry no information about the class
// and position little, so a linear classifier of pixels fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace normlab {

/// One 32x32 RGB image of class index mod 10, [32, 32, 3] at `rgb`. Depends only on (seed, split, index), in integer
/// arithmetic, so every machine makes the same bytes.
void draw_shapes(std::uint64_t shapes_seed, const std::string& split, std::int64_t index, std::uint8_t* rgb);

std::vector<std::string> shapes_classes();

}  // namespace normlab
