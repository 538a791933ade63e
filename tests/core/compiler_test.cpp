// What a compiler has got wrong: see COPIES in the Makefile.
#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <vector>

TEST_CASE("compiler: lists of constants keep their zeros") {
  const std::vector<double> halves{0.5, 0.5, 0, 0};
  const std::vector<std::int64_t> threes{3, 3, 0, 0};
  // By hand: a comparison with another list would be built the same way.
  CHECK(std::accumulate(halves.begin(), halves.end(), 0.0) == 1.0);
  CHECK(std::accumulate(threes.begin(), threes.end(), std::int64_t{0}) == 6);
}
