#include "experiments/lab/statistics/proportions.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"
#include "experiments/lab/statistics/many_to_one.h"
#include "tests/lab/statistics/known_tests.h"

using namespace normlab;

namespace {

const std::vector<double> kSmall{-0.1, 0.05, 0.02, -0.04};

}  // namespace

TEST_CASE("proportions: Clopper and Pearson's bounds leave tails of 2.5%") {
  for (const int n : {3, 20}) {
    for (int hits = 0; hits <= n; ++hits) {
      CAPTURE(n);
      CAPTURE(hits);
      const auto at_least = [&](int k, double p) {  // P(X >= k)
        double sum = 0;
        for (int i = k; i <= n; ++i)
          sum += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1)) * std::pow(p, i) *
                 std::pow(1 - p, n - i);
        return sum;
      };
      const Bounds bounds = clopper_pearson(hits, n);
      if (hits > 0) CHECK(at_least(hits, bounds.low) == doctest::Approx(0.025).epsilon(1e-9));
      if (hits < n) CHECK(1 - at_least(hits + 1, bounds.high) == doctest::Approx(0.025).epsilon(1e-9));
    }
    CHECK(clopper_pearson(0, n).low == 0);
    CHECK(clopper_pearson(n, n).high == 1);
  }
}

TEST_CASE("proportions: no trials leave the whole range from 0 to 1") {
  CHECK(clopper_pearson(0, 0).low == 0);
  CHECK(clopper_pearson(0, 0).high == 1);
}

TEST_CASE("proportions: the bound of 2 in 3 is 9.4%") {
  CHECK(clopper_pearson(2, 3).low == doctest::Approx(0.0942993).epsilon(1e-5));
}

TEST_CASE("proportions: McNemar's test counts the images of two runs") {
  Correctness first(12, "data"), second(12, "data");
  for (const int i : {0, 1, 2, 3, 4, 5}) first.set(i, true);
  for (const int i : {0, 8}) second.set(i, true);
  const McNemar result = mcnemar(first, second);
  CHECK(result.both == 1);
  CHECK(result.only_first == 5);
  CHECK(result.only_second == 1);
  CHECK(result.neither == 5);
  CHECK(result.p == doctest::Approx(2 * 7.0 / 64).epsilon(1e-12));
}

TEST_CASE("proportions: McNemar's p is 1 without a difference") {
  CHECK(mcnemar_p(0, 0) == 1);
  CHECK(mcnemar_p(4, 4) == 1);
}

TEST_CASE("proportions: McNemar's test refuses runs on other images") {
  const Correctness first(12, "data");
  CHECK_THROWS_WITH_AS(mcnemar(first, Correctness(12, "other")),
                       doctest::Contains("images: 12 (data) and 12 (other); expected the same"), InputError);
  CHECK_THROWS_WITH_AS(mcnemar(first, Correctness(11, "data")),
                       doctest::Contains("images: 12 (data) and 11 (data); expected the same"), InputError);
}

TEST_CASE("equivalence: rows are equivalent exactly if the margin holds the 90% interval") {
  const double reach = std::abs(mean(kSmall)) + *mean_interval(kSmall, 0.9)->half_width;
  CHECK(*paired_equivalence(kSmall, reach * 1.0001) < 0.05);
  CHECK(*paired_equivalence(kSmall, reach * 0.9999) > 0.05);
}

TEST_CASE("equivalence: one difference or equal differences give no result") {
  CHECK(!paired_equivalence(std::vector<double>{0.3}, 1));
  CHECK(!paired_equivalence(std::vector<double>{0.3, 0.3, 0.3}, 1));
}

TEST_CASE("equivalence: a margin of 0 is refused") {
  CHECK_THROWS_WITH_AS(paired_equivalence(kSmall, 0), "margin of equivalence: 0; expected more than 0", InputError);
}

TEST_CASE("holm: no p values give none") { CHECK(holm_adjusted(std::vector<double>{}).empty()); }

TEST_CASE("holm: adjusted p values never fall as p rises") {
  const auto adjusted = holm_adjusted(std::vector<double>{0.04, 0.01, 0.03, 0.9});
  CHECK(adjusted[1] == doctest::Approx(0.04));
  CHECK(adjusted[2] == doctest::Approx(0.09));
  CHECK(adjusted[0] == doctest::Approx(0.09));  // 0.08 by itself
  CHECK(adjusted[3] == doctest::Approx(0.9));
}
