// "shapes": small pictures made from a seed, always at hand. Ten classes say how a disc and a cross stand to each
// other: in line along one of four directions, near or far, or one upon the other. Colours and brightness say nothing
// about the class and place says little, so a linear classifier of pixels gets nowhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace normlab {

/// One 32x32 RGB picture of class index mod 10, [32, 32, 3] at `rgb`: a function of (seed, split, index) alone, by
/// integer arithmetic, so that every machine makes the same bytes.
void draw_shapes(std::uint64_t shapes_seed, const std::string& split, std::int64_t index, std::uint8_t* rgb);

std::vector<std::string> shapes_classes();

}  // namespace normlab
