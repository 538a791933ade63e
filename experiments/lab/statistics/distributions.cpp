#include "experiments/lab/statistics/distributions.h"

// Arguments beyond a distribution give NaN or infinity, as in <cmath>.
#define BOOST_MATH_DOMAIN_ERROR_POLICY ignore_error
#define BOOST_MATH_OVERFLOW_ERROR_POLICY ignore_error
#define BOOST_MATH_EVALUATION_ERROR_POLICY ignore_error
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>
#include <boost/math/tools/roots.hpp>
#include <cmath>

#include "core/random.h"

namespace normlab {

namespace math = boost::math;

double inverse_regularised_beta(double probability, double a, double b) { return math::ibeta_inv(a, b, probability); }

double fair_binomial_cdf(double k, double n) { return math::cdf(math::binomial(n, 0.5), k); }

SdRange sd_range(double freedom, double level) {
  const math::chi_squared square(freedom);
  const double tail = (1 - level) / 2;
  return {.low = std::sqrt(freedom / math::quantile(math::complement(square, tail))),
          .high = std::sqrt(freedom / math::quantile(square, tail))};
}

double f_tail(double ratio, double above, double below) {
  return math::cdf(math::complement(math::fisher_f(above, below), ratio));
}

double student_t_tail(double t, double freedom) {
  // Boost's distribution loses digits near t = 0.
  const double t2 = t * t, a = freedom / 2, x = t2 / (freedom + t2);
  const double both = t2 < 1         ? 1 - math::ibeta(0.5, a, x)
                      : t2 < freedom ? math::ibetac(0.5, a, x)
                                     : math::ibeta(a, 0.5, freedom / (freedom + t2));
  return t < 0 ? 1 - both / 2 : both / 2;
}

double student_t_two_sided_quantile(double probability, double freedom) {
  return math::quantile(math::complement(math::students_t(freedom), probability / 2));
}

// Boost's noncentral t has no large shifts: this integrates over S, where S^2 is chi-square over its degrees.
double t_test_power(double shift, double freedom, double critical) {
  // The trapezoidal rule in u = log S: S has density S^(f-1) exp(-f S^2 / 2), so u has exp(f (u - e^2u / 2)). This
  // decays fast on both sides of 0 and is analytic, so the error decreases exponentially with the step.
  constexpr double kNegligible = 40;  // e^-40 of the density's maximum
  const auto log_density = [&](double u) { return freedom * (u - 0.5 * std::expm1(2 * u)); };
  const double deviation = 1 / std::sqrt(2 * freedom);
  const double low = -kNegligible / freedom - 9 * deviation;
  double high = 9 * deviation;
  while (high > deviation && log_density(high) < -kNegligible) high *= 0.9;
  const double step = std::min(0.25 * deviation, 0.4 / (1 + std::abs(shift)));
  double power = 0, whole = 0;
  for (double u = low; u <= high / 0.9; u += step) {
    const double weight = std::exp(log_density(u)), edge = critical * std::exp(u);
    if (weight < 1e-18) continue;
    whole += weight;
    power += weight * (normal_cdf(shift - edge) + normal_cdf(-shift - edge));
  }
  return power / whole;
}

double smallest_shift(double freedom, double critical, double power) {
  const auto missing = [&](double shift) { return t_test_power(shift, freedom, critical) - power; };
  if (missing(0) >= 0) return 0;
  double high = 1;
  while (missing(high) < 0) high *= 2;
  return zero_between(missing, high == 1 ? 0 : high / 2, high);
}

double log_gamma(double x) { return math::lgamma(x); }
double digamma(double x) { return math::digamma(x); }
double trigamma(double x) { return math::trigamma(x); }

double zero_between(const std::function<double(double)>& f, double low, double high) {
  std::uintmax_t steps = 200;
  const auto [from, to] = math::tools::toms748_solve(f, low, high, math::tools::eps_tolerance<double>(50), steps);
  return (from + to) / 2;
}

}  // namespace normlab
