// "shapes": a disc and a cross, aligned along one of four directions, near or far, or one on top of the other:
// ten classes. Colours and brightness carry no information about the class and position little, so a linear
// classifier of pixels fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace normlab {

/// One 32x32 RGB image of class index mod 10, [32, 32, 3] at `rgb`. Depends only on (seed, split, index); integer
/// arithmetic gives the same bytes on every machine.
void draw_shapes(std::uint64_t shapes_seed, const std::string& split, std::int64_t index, std::uint8_t* rgb);

std::vector<std::string> shapes_classes();

}  // namespace normlab
