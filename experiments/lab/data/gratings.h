// "gratings": two striped discs, one fine and one coarse, on a background of other stripes. The ten classes combine
// five directions of the fine stripes with coarse stripes along or across them. Phases, positions, contrasts and
// colours are random, so a linear classifier of pixels learns almost nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace normlab {

/// One 32x32 RGB image of class index mod 10, [32, 32, 3] at `rgb`. Depends only on (seed, split, index); integer
/// arithmetic gives the same bytes on every machine.
void draw_gratings(std::uint64_t seed, const std::string& split, std::int64_t index, std::uint8_t* rgb);

std::vector<std::string> gratings_classes();

}  // namespace normlab
