#include "experiments/lab/statistics/special.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/random.h"
#include "experiments/lab/statistics/solve.h"
#include "tests/lab/statistics/known_tests.h"

using namespace normlab;

namespace {

double relative_error(double value, double expected) { return std::abs(value - expected) / std::abs(expected); }

}  // namespace

TEST_CASE("special: incomplete beta functions have their closed forms") {
  for (const double x : {1e-6, 0.1, 0.5, 0.93}) {
    CAPTURE(x);
    CHECK(relative_error(regularised_beta(1, 1, x, 1 - x), x) < 1e-13);
    CHECK(relative_error(regularised_beta(3, 1, x, 1 - x), x * x * x) < 1e-13);
    CHECK(relative_error(regularised_beta(1, 4, x, 1 - x), -std::expm1(4 * std::log1p(-x))) < 1e-13);
    CHECK(relative_error(regularised_beta(0.5, 0.5, x, 1 - x), 2 / M_PI * std::asin(std::sqrt(x))) < 1e-12);
  }
}

TEST_CASE("special: incomplete gamma functions have their closed forms") {
  for (const double x : {1e-6, 0.1, 0.5, 0.93}) {
    CAPTURE(x);
    CHECK(relative_error(regularised_gamma(1, x), -std::expm1(-x)) < 1e-13);
    CHECK(relative_error(regularised_gamma_upper(1, 30 * x), std::exp(-30 * x)) < 1e-12);
    CHECK(relative_error(regularised_gamma(0.5, x), std::erf(std::sqrt(x))) < 1e-13);
  }
}

TEST_CASE("special: incomplete beta and gamma functions are exact at their ends") {
  CHECK(regularised_beta(2, 3, 0, 1) == 0);
  CHECK(regularised_beta(2, 3, 1, 0) == 1);
  CHECK(regularised_gamma(2, 0) == 0);
}

TEST_CASE("special: quantiles invert their distribution functions") {
  for (const double p : {1e-8, 0.025, 0.5, 0.999}) {
    CAPTURE(p);
    for (const double freedom : {1.0, 3.0, 24.0, 5000.0}) {
      CAPTURE(freedom);
      CHECK(relative_error(chi_square_cdf(chi_square_quantile(p, freedom), freedom), p) < 1e-10);
    }
    const double x = inverse_regularised_beta(p, 3, 4988);
    CHECK(relative_error(regularised_beta(3, 4988, x, 1 - x), p) < 1e-10);
  }
}

TEST_CASE("special: quantiles are SciPy's") {
  // SciPy 1.17
  CHECK(relative_error(chi_square_quantile(0.025, 3), 0.21579528262389785) < 1e-12);
  CHECK(relative_error(chi_square_quantile(1 - 1e-9, 500), 713.5546416030959) < 1e-9);
  CHECK(relative_error(inverse_regularised_beta(0.9, 0.4, 2.5), 0.397794564764) < 1e-9);
}

TEST_CASE("special: the nodes of the spread have its moments") {
  for (const double freedom : {1.0, 2.0, 7.0, 300.0}) {
    CAPTURE(freedom);
    const SpreadNodes nodes = spread_nodes(freedom, 0.15);
    double one = 0, square = 0, fourth = 0;
    for (std::size_t i = 0; i < nodes.s.size(); ++i) {
      const double s2 = nodes.s[i] * nodes.s[i];
      one += nodes.weight[i], square += nodes.weight[i] * s2, fourth += nodes.weight[i] * s2 * s2;
    }
    CHECK(one == doctest::Approx(1).epsilon(1e-12));
    CHECK(square == doctest::Approx(1).epsilon(1e-11));
    CHECK(fourth == doctest::Approx(1 + 2 / freedom).epsilon(1e-11));
  }
}

TEST_CASE("special: the noncentral t at 0 is normal") {
  for (const double shift : {-1.0, 0.0, 2.5})  // the spread does not matter there
    CHECK(noncentral_t_cdf(0, 5, shift) == doctest::Approx(normal_cdf(-shift)).epsilon(1e-12));
}

TEST_CASE("special: the noncentral t is SciPy's") {
  // SciPy 1.17, stats.nct.cdf
  CHECK(relative_error(noncentral_t_cdf(2.5, 4, 1.2), 0.807962333389) < 1e-9);
  CHECK(relative_error(noncentral_t_cdf(-1, 30, -2), 0.841361132932) < 1e-9);
}

TEST_CASE("special: solve finds the zero of steep and flat functions") {
  CHECK(solve([](double x) { return x * x * x - 2; }, 0.0, 4.0) == doctest::Approx(std::cbrt(2.0)).epsilon(1e-14));
  CHECK(solve([](double x) { return std::tanh(50 * (x - 0.3)); }, -10.0, 10.0) == doctest::Approx(0.3).epsilon(1e-13));
  CHECK(solve([](double x) { return std::pow(x - 1, 9); }, 0.0, 5.0) == doctest::Approx(1).epsilon(1e-6));
  CHECK(solve([](double x) { return 2 - x; }, 2.0, 3.0) == 2.0);
}
