
#include <doctest/doctest.h>

#include <cmath>

#include "core/random.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/statistics/many_to_one.h"
#include "tests/lab/statistics/known_tests.h"

using namespace normlab;

namespace {

std::vector<Variance> rows_of(const std::vector<double>& variances, const std::vector<double>& freedoms) {
  std::vector<Variance> rows;
  for (std::size_t i = 0; i < variances.size(); ++i) rows.push_back({variances[i], freedoms[i]});
  return rows;
}

void check_prior(const std::vector<Variance>& rows, double value, double freedom) {
  const Variance prior = prior_variance(rows);
  CHECK(prior.value == doctest::Approx(value).epsilon(1e-9));
  // limma inverts the trigamma function to 1e-8.
  if (std::isfinite(freedom))
    CHECK(prior.freedom == doctest::Approx(freedom).epsilon(1e-7));
  else
    CHECK(prior.freedom == freedom);
}

}  // namespace

// Rscript -e 'library(limma); f <- function(v, d) { s <- fitFDist(v, d); cat(sprintf("%.12g %.12g\n", s$scale, s$df2))
// }
//   f(c(.31, .47, 2.6, 7.39, .9, 1.4, .22, 3.3, .75, 1.9, 5.2), rep(4, 11)); f(c(1, 1.1, .9, 1.2, .8), rep(4, 5))
//   f(c(.31, .47, 2.6, 7.39, .9), c(4, 4, 2, 1, 3)); f(c(.02, 40, 3), c(2, 2, 9)); f(c(1, 30), c(4, 4))'
// with limma 3.54.1.
TEST_CASE("moderated_variance: the prior is limma's") {
  const std::vector<double> four(11, 4.0);
  check_prior(rows_of({.31, .47, 2.6, 7.39, .9, 1.4, .22, 3.3, .75, 1.9, 5.2}, four), 1.29635139755, 3.89265719069);
  check_prior(rows_of({1, 1.1, .9, 1.2, .8}, four), 1, INFINITY);
  check_prior(rows_of({.31, .47, 2.6, 7.39, .9}, {4, 4, 2, 1, 3}), 1.36977119561, 2.65565729961);
  check_prior(rows_of({.02, 40, 3}, {2, 2, 9}), 0.178480225266, 0.570308306626);
  check_prior(rows_of({1, 30}, four), 1.94500636919, 0.976537936568);
}

TEST_CASE("moderated_variance: one row borrows nothing") {
  CHECK(prior_variance(rows_of({2}, {4})).freedom == 0);
  const Variance alone = moderated({2, 4}, {}, 1);
  CHECK(alone.value == 2);
  CHECK(alone.freedom == 4);
}

TEST_CASE("moderated_variance: a row borrows half of the prior's degrees, within its limits") {
  const Variance half = moderated({2, 4}, {1, 10}, 11);  // 5 of 1 and 4 of 2
  CHECK(half.freedom == 9);
  CHECK(half.value == doctest::Approx(13.0 / 9));
  CHECK(moderated({2, 4}, {1, INFINITY}, 11).freedom == 4 + 4 * 4);
  CHECK(moderated({2, 4}, {1, INFINITY}, 3).freedom == 4 + 4);
  CHECK(moderated({0, 4}, {1, 10}, 11).value == doctest::Approx(5.0 / 9));
}

TEST_CASE("moderated_variance: a row far above the prior borrows less") {
  // P(F > 20) on 4 and 5 degrees is 0.0028138674 (R: pf(20, 4, 5, lower.tail = FALSE)).
  const double borrowed = 5 * 0.0028138674 / 0.1;
  const Variance far = moderated({20, 4}, {1, 10}, 11);
  CHECK(far.freedom == doctest::Approx(4 + borrowed).epsilon(1e-5));
  CHECK(far.value == doctest::Approx((borrowed + 80) / (4 + borrowed)).epsilon(1e-5));
}

TEST_CASE("expected_best: the largest of equal gains is the largest of normals") {
  const double share = std::sqrt(0.5);
  CHECK(expected_best({{1, 1, 1, 1}}) == doctest::Approx(share * 1.0293753730).epsilon(1e-9));
  CHECK(expected_best({{2, 2}}) == doctest::Approx(2 * share / std::sqrt(std::acos(-1.0))).epsilon(1e-9));
  CHECK(expected_best({{1}, {1}}) == doctest::Approx(1 / std::sqrt(std::acos(-1.0))).epsilon(1e-9));
  CHECK(expected_best({{3}}) == 0);
  CHECK(expected_best({}) == 0);
}

TEST_CASE("expected_best: unequal errors agree with draws") {
  const std::vector<double> errors{0.3, 1, 4};
  const StreamKey key = stream_key(1, "expected-best", "test");
  double sum = 0;
  constexpr int kDraws = 200'000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double common = normal(key, 4 * i);
    double best = -INFINITY;
    for (std::uint64_t r = 0; r < 3; ++r)
      best = std::max(best, errors[r] * std::sqrt(0.5) * (common + normal(key, 4 * i + 1 + r)));
    sum += best;
  }
  CHECK(expected_best({errors}) == doctest::Approx(sum / kDraws).epsilon(0.01));
}

TEST_CASE("interval_simulation: Dunnett's intervals are as wide as in his tables") {
  // Critical value 2.8621 on 44 degrees by scipy.stats.dunnett's distribution, times the mean of a sd on 44 degrees.
  CHECK(simulated_equal_width({.rows = 11, .seeds = 5}, 4000) == doctest::Approx(2.8621 * 0.99433).epsilon(0.02));
}

TEST_CASE("interval_simulation: intervals fit rows with equal and unequal spreads") {
  constexpr std::size_t kSweeps = 3000;  // a standard error of 0.4%
  const double dunnett = simulated_equal_width({.rows = 11, .seeds = 5}, kSweeps);
  const SimulatedIntervals equal = simulated_intervals({.rows = 11, .seeds = 5}, kSweeps);
  CHECK(equal.coverage > 0.94);
  CHECK(equal.width / dunnett < 1.16);
  for (const std::size_t noisy : {1, 3, 6}) {
    CAPTURE(noisy);
    CHECK(simulated_intervals({.rows = 11, .seeds = 5, .noisy_rows = noisy, .times = 3}, kSweeps).coverage > 0.92);
  }
  CHECK(simulated_intervals({.rows = 11, .seeds = 5, .noisy_baseline = true, .times = 3}, kSweeps).coverage > 0.93);
  CHECK(simulated_intervals({.rows = 3, .seeds = 5}, kSweeps).coverage > 0.925);
}
