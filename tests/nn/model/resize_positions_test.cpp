#include "nn/model/resize_positions.h"

#include <doctest/doctest.h>

#include "core/error.h"

using namespace normlab;

namespace {

const std::vector<float> kFour{0.1f, 0.2f, 0.3f, 0.4f};

/// A class token of width 2 and a row of two places, to two rows of four.
ResizedPositions enlarged() {
  return resize_positions(std::vector<float>{9, 8, 0, 10, 4, 30}, 2, {1, 2}, {2, 4}, 1, Resampling::bilinear);
}
ResizedPositions shrunk() {
  return resize_positions(std::vector<float>{1, 3, 5, 7}, 1, {2, 2}, {1, 1}, 0, Resampling::bilinear_antialias);
}

}  // namespace

TEST_CASE("resize_positions: the grid is resampled after the prefix tokens") {
  CHECK(enlarged().table == std::vector<float>{9, 8, 0, 10, 1, 15, 3, 25, 4, 30, 0, 10, 1, 15, 3, 25, 4, 30});
  CHECK(shrunk().table == std::vector<float>{4});
}

TEST_CASE("resize_positions: the report says what was done") {
  CHECK(enlarged().done == "positions 1x2 -> 2x4 by bilinear, 1 prefix token kept");
  CHECK(shrunk().done == "positions 2x2 -> 1x1 by bilinear_antialias");
  CHECK(resize_positions(kFour, 1, {4, 1}, {1, 4}, 0, Resampling::corners).done == "positions 4x1 -> 1x4 by corners");
}

TEST_CASE("resize_positions: equal grids change no bit") {
  const ResizedPositions same = resize_positions(kFour, 1, {2, 1}, {2, 1}, 2, Resampling::bicubic);
  CHECK(same.table == kFour);
  CHECK(same.done == "positions 2x1 as they are");
}

TEST_CASE("resize_positions: a table of another size is refused") {
  CHECK_THROWS_WITH_AS(resize_positions(std::vector<float>(12), 2, {2, 2}, {3, 3}, 1, Resampling::bicubic),
                       "positions: a table of 12 values is not 1 prefix tokens and a 2x2 grid of width 2", InputError);
}

TEST_CASE("resize_positions: a grid without points is refused") {
  CHECK_THROWS_WITH_AS(resize_positions(std::vector<float>(12), 3, {2, 2}, {0, 3}, 0, Resampling::bicubic),
                       "positions 2x2 to 0x3, width 3, 0 prefix tokens: a grid has no points", InputError);
}
