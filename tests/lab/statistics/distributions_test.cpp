#include "experiments/lab/statistics/distributions.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/lab/statistics/relative_error.h"

using namespace normlab;

TEST_CASE("distributions: quantiles of the beta distribution have their closed forms") {
  for (const double p : {1e-8, 0.025, 0.5, 0.999}) {
    CAPTURE(p);
    CHECK(relative_error(inverse_regularised_beta(p, 1, 1), p) < 1e-13);
    CHECK(relative_error(inverse_regularised_beta(p, 3, 1), std::cbrt(p)) < 1e-13);
    CHECK(relative_error(inverse_regularised_beta(p, 1, 4988), -std::expm1(std::log1p(-p) / 4988)) < 1e-12);
  }
  CHECK(relative_error(inverse_regularised_beta(0.9, 0.4, 2.5), 0.397794564764) < 1e-9);  // SciPy 1.17
}

TEST_CASE("distributions: the tail of F has its closed forms") {
  // P(F >= x) with 2 and d degrees is (1 + 2 x / d)^(-d/2).
  for (const double x : {1e-6, 0.5, 3.0, 1e4})
    CHECK(relative_error(f_tail(x, 2, 7), std::pow(1 + 2 * x / 7, -3.5)) < 1e-12);
  CHECK(f_tail(0, 3, 2) == 1);
}

TEST_CASE("distributions: half of the throws of a fair coin") {
  CHECK(fair_binomial_cdf(1, 6) == doctest::Approx(7.0 / 64).epsilon(1e-14));
  CHECK(fair_binomial_cdf(0, 60) == doctest::Approx(std::pow(0.5, 60)).epsilon(1e-13));
}

TEST_CASE("distributions: derivatives of log Gamma have their closed forms") {
  CHECK(digamma(1) == doctest::Approx(-0.57721566490153286).epsilon(1e-15));
  CHECK(trigamma(0.5) == doctest::Approx(M_PI * M_PI / 2).epsilon(1e-15));
}

TEST_CASE("distributions: arguments beyond a distribution end no program") {
  CHECK(std::isnan(student_t_two_sided(NAN, 3)));
  CHECK(student_t_two_sided(INFINITY, 3) == 0);
  CHECK(std::isnan(f_tail(NAN, 3, 2)));
}

TEST_CASE("distributions: the zero of steep and flat functions is found") {
  const auto zero = [](auto&& f, double low, double high) { return zero_between(f, low, high); };
  CHECK(zero([](double x) { return x * x * x - 2; }, 0, 4) == doctest::Approx(std::cbrt(2.0)).epsilon(1e-14));
  CHECK(zero([](double x) { return std::tanh(50 * (x - 0.3)); }, -10, 10) == doctest::Approx(0.3).epsilon(1e-13));
  CHECK(zero([](double x) { return std::pow(x - 1, 9); }, 0, 5) == doctest::Approx(1).epsilon(1e-6));
  CHECK(zero([](double x) { return 2 - x; }, 2, 3) == 2.0);
}
