// "gratings": small pictures made from a seed. Two discs with stripes, one fine and one coarse, lie on a ground of
// other stripes. Ten classes say in which of five directions the fine stripes run, and whether the coarse ones run
// along or across. Phases, places, contrasts and colours are random, so a linear classifier of pixels learns next to
// nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace normlab {

/// One 32x32 RGB picture of class index mod 10, [32, 32, 3] at `rgb`: a function of (seed, split, index) alone, by
/// integer arithmetic, so that every machine makes the same bytes.
void draw_gratings(std::uint64_t seed, const std::string& split, std::int64_t index, std::uint8_t* rgb);

std::vector<std::string> gratings_classes();

}  // namespace normlab
