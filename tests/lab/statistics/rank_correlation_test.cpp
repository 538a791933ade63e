#include "experiments/lab/statistics/student.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using normlab::spearman;

TEST_CASE("rank correlation: equals scipy.stats.spearmanr") {
  const std::vector<double> x{1, 2, 3, 4, 5, 6}, up{0.1, 0.4, 0.5, 3, 40, 41}, down{6, 5, 4, 3, 2, 1},
      ties{2, 2, 1, 5, 5, 3}, mixed{3.1, 0.2, 5, 4.4, 1, 2};
  CHECK(spearman(x, up) == doctest::Approx(1));
  CHECK(spearman(x, down) == doctest::Approx(-1));
  CHECK(spearman(x, ties) == doctest::Approx(0.6179143806533246).epsilon(1e-12));
  CHECK(spearman(x, mixed) == doctest::Approx(-0.08571428571428573).epsilon(1e-12));
}

TEST_CASE("rank correlation: equal values have none") {
  const std::vector<double> x{1, 2, 3}, same{4, 4, 4}, one{1};
  CHECK(std::isnan(spearman(x, same)));
  CHECK(std::isnan(spearman(one, one)));
}
