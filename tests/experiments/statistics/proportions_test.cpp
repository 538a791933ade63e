#include "experiments/statistics/proportions.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"
#include "experiments/statistics/many_to_one.h"
#include "tests/experiments/statistics/known_tests.h"

using namespace normlab;

TEST_CASE("proportions: Clopper and Pearson's bounds are where the tails are 2.5%") {
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
  CHECK(clopper_pearson(0, 0).low == 0);
  CHECK(clopper_pearson(0, 0).high == 1);
  CHECK(clopper_pearson(2, 3).low == doctest::Approx(0.0942993).epsilon(1e-5));
}

TEST_CASE("proportions: McNemar of two runs on the same images") {
  Correctness first(12, "data"), second(12, "data");
  for (const int i : {0, 1, 2, 3, 4, 5}) first.set(i, true);
  for (const int i : {0, 8}) second.set(i, true);
  const McNemar result = mcnemar(first, second);
  CHECK(result.both == 1);
  CHECK(result.only_first == 5);
  CHECK(result.only_second == 1);
  CHECK(result.neither == 5);
  CHECK(result.p == doctest::Approx(2 * 7.0 / 64).epsilon(1e-12));
  CHECK(mcnemar_p(0, 0) == 1);
  CHECK(mcnemar_p(4, 4) == 1);
  CHECK_THROWS_AS(mcnemar(first, Correctness(12, "other")), InputError);
  CHECK_THROWS_AS(mcnemar(first, Correctness(11, "data")), InputError);
}

TEST_CASE("equivalence: within the margin just where the 90% interval is") {
  const std::vector<double> small{-0.1, 0.05, 0.02, -0.04};
  const auto result = equivalence(small, 0.2);
  CHECK(result->equivalent);
  CHECK(result->p < 0.05);
  const double reach = std::max(-result->low, result->high);
  CHECK(equivalence(small, reach * 1.0001)->equivalent);
  CHECK(equivalence(small, reach * 1.0001)->p < 0.05);
  CHECK(!equivalence(small, reach * 0.9999)->equivalent);
  CHECK(equivalence(small, reach * 0.9999)->p > 0.05);
  CHECK(!equivalence(std::vector<double>{0.3}, 1));
  CHECK(!equivalence(std::vector<double>{0.3, 0.3, 0.3}, 1));  // nothing tells the noise
  CHECK_THROWS_AS(equivalence(small, 0), InputError);
}

TEST_CASE("holm: steps down and never falls") {
  CHECK(holm_adjusted(std::vector<double>{}).empty());
  const auto adjusted = holm_adjusted(std::vector<double>{0.04, 0.01, 0.03, 0.9});
  CHECK(adjusted[1] == doctest::Approx(0.04));
  CHECK(adjusted[2] == doctest::Approx(0.09));
  CHECK(adjusted[0] == doctest::Approx(0.09));  // 0.08 by itself
  CHECK(adjusted[3] == doctest::Approx(0.9));
}
