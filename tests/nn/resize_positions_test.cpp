#include "nn/resize_positions.h"

#include <doctest/doctest.h>

#include "core/error.h"

using namespace normlab;

TEST_CASE("resize_positions: prefix tokens stay, the grid is resampled, the report says how") {
  // Width 2, one class token, then a row of two places.
  const std::vector<float> table{9, 8, 0, 10, 4, 30};
  const ResizedPositions resized = resize_positions(table, 2, {1, 2}, {2, 4}, 1, Resampling::bilinear);
  CHECK(resized.table == std::vector<float>{9, 8, 0, 10, 1, 15, 3, 25, 4, 30, 0, 10, 1, 15, 3, 25, 4, 30});
  CHECK(resized.done == "positions 1x2 -> 2x4 by bilinear, 1 prefix token kept");
  const ResizedPositions shrunk =
      resize_positions(std::vector<float>{1, 3, 5, 7}, 1, {2, 2}, {1, 1}, 0, Resampling::bilinear_antialias);
  CHECK(shrunk.table == std::vector<float>{4});
  CHECK(shrunk.done == "positions 2x2 -> 1x1 by bilinear_antialias");
}

TEST_CASE("resize_positions: equal grids change no bit") {
  const std::vector<float> table{0.1f, 0.2f, 0.3f, 0.4f};
  const ResizedPositions same = resize_positions(table, 1, {2, 1}, {2, 1}, 2, Resampling::bicubic);
  CHECK(same.table == table);
  CHECK(same.done == "positions 2x1 as they are");
  CHECK(resize_positions(table, 1, {4, 1}, {1, 4}, 0, Resampling::corners).done == "positions 4x1 -> 1x4 by corners");
}

TEST_CASE("resize_positions: a table of another size and grids without points are refused") {
  const std::vector<float> table(12);
  CHECK_THROWS_WITH_AS(resize_positions(table, 2, {2, 2}, {3, 3}, 1, Resampling::bicubic),
                       "positions: a table of 12 values is not 1 prefix tokens and a 2x2 grid of width 2", InputError);
  CHECK_THROWS_WITH_AS(resize_positions(table, 3, {2, 2}, {0, 3}, 0, Resampling::bicubic),
                       "positions 2x2 to 0x3, width 3, 0 prefix tokens: a grid has no points", InputError);
}
