#include <doctest/doctest.h>

#include <cmath>

#include "tests/lab/statistics/known_tests.h"
#include "tests/lab/statistics/relative_error.h"

using namespace normlab;

TEST_CASE("planning: the power of a paired t test is SciPy's") {
  CHECK(relative_error(paired_t_power(0, 3), 0.05) < 1e-9);
  CHECK(relative_error(paired_t_power(0.5 / 0.3, 3), 0.367163569831682) < 1e-9);
  CHECK(relative_error(paired_t_power(0.2 / 0.3, 5), 0.21133448954603723) < 1e-9);
  CHECK(relative_error(paired_t_power(0.5 / 0.3, 12), 0.9994416958654331) < 1e-9);
}

TEST_CASE("planning: the smallest detectable gain is SciPy's") {
  CHECK(relative_error(smallest_gain(0.2, 2), 2.3099776871764988) < 1e-9);
  CHECK(relative_error(smallest_gain(1.0, 3), 3.2640435496996467) < 1e-9);
  CHECK(relative_error(smallest_gain(1.0, 5, 0.9), 1.9658888236059546) < 1e-9);
  CHECK(relative_error(smallest_gain(1.0, 10), 0.9960013714554794) < 1e-9);
  CHECK(relative_error(smallest_gain(0.2, 30), 0.10584712302259103) < 1e-9);
}

TEST_CASE("planning: the smallest shift reaches the requested power") {
  for (const double freedom : {1.0, 4.0, 96.0})
    for (const double power : {0.1, 0.8, 0.99}) {
      CAPTURE(freedom);
      CAPTURE(power);
      const double critical = student_t_two_sided_quantile(0.05, freedom);
      CHECK(relative_error(t_test_power(smallest_shift(freedom, critical, power), freedom, critical), power) < 1e-10);
    }
}

TEST_CASE("planning: the power without a shift is the level of the test") {
  for (const double freedom : {1.0, 4.0, 96.0}) {
    CAPTURE(freedom);
    const double critical = student_t_two_sided_quantile(0.05, freedom);
    CHECK(relative_error(t_test_power(0, freedom, critical), 0.05) < 1e-10);
  }
}

TEST_CASE("planning: a power below the level of the test needs no shift") { CHECK(smallest_shift(8, 2, 0.01) == 0); }

TEST_CASE("planning: the range of an sd comes from chi-square's quantiles") {
  // sqrt(f / quantile); tables give 0.0506 and 7.378 for two degrees.
  const SdRange two = sd_range(2);
  CHECK(two.low == doctest::Approx(std::sqrt(2 / 7.377758908)).epsilon(1e-9));
  CHECK(two.high == doctest::Approx(std::sqrt(2 / 0.0506356159)).epsilon(1e-8));
}

TEST_CASE("planning: the range of an sd on many degrees is narrow") {
  CHECK(sd_range(10'000).high - sd_range(10'000).low < 0.03);
}
