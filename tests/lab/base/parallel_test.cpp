#include "experiments/lab/base/parallel.h"

#include <doctest/doctest.h>

#include <string>

using namespace normlab;

TEST_CASE("parallel: every item is done once") {
  for (const int threads : {1, 4, 100}) {
    std::vector<int> count(1001);
    parallel_items(1001, 8, threads, [&](std::size_t, std::int64_t i) { ++count[static_cast<std::size_t>(i)]; });
    CHECK(count == std::vector<int>(1001, 1));
  }
}

TEST_CASE("parallel: no items are no work") {
  parallel_items(0, 8, 4, [](std::size_t, std::int64_t) { FAIL("there is no item"); });
}

TEST_CASE("parallel: the error is that of the first item that fails") {
  for (int round = 0; round < 50; ++round) {
    std::string said;
    try {
      parallel_items(500, 4, 4, [](std::size_t, std::int64_t i) {
        if (i >= 101) throw std::to_string(i);
      });
    } catch (const std::string& what) {
      said = what;
    }
    CHECK(said == "101");
  }
}
