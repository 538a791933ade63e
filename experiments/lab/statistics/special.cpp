#include "experiments/lab/statistics/special.h"

#include <math.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "experiments/lab/statistics/solve.h"

namespace normlab {
namespace {

constexpr double kTiny = 1e-300;
constexpr int kMaxTerms = 100'000;

double guarded(double value) { return std::abs(value) < kTiny ? kTiny : value; }

/// Continued fraction of the incomplete beta function by Lentz's method, Abramowitz and Stegun 26.5.8.
double beta_fraction(double a, double b, double x) {
  double c = 1, d = 1 / guarded(1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m < kMaxTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / guarded(1 + even * d);
    c = guarded(1 + even / c);
    value *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guarded(1 + odd * d);
    c = guarded(1 + odd / c);
    value *= d * c;
    if (std::abs(d * c - 1) < 1e-16) break;
  }
  return value;
}

/// x^a e^-x / Gamma(a).
double gamma_front(double a, double x) { return std::exp(a * std::log(x) - x - log_gamma(a)); }

/// P(a, x) as a series, for x < a + 1. Abramowitz and Stegun 6.5.29.
double gamma_series(double a, double x) {
  double term = 1 / a, sum = term;
  for (int n = 1; n < kMaxTerms && term > 1e-17 * sum; ++n) sum += term *= x / (a + n);
  return gamma_front(a, x) * sum;
}

/// Q(a, x) as a continued fraction, for x >= a + 1. Abramowitz and Stegun 6.5.31, by Lentz's method.
double gamma_fraction(double a, double x) {
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / guarded(b), value = d;
  for (int n = 1; n < kMaxTerms; ++n) {
    const double numerator = -n * (n - a);
    b += 2;
    d = 1 / guarded(numerator * d + b);
    c = guarded(b + numerator / c);
    value *= d * c;
    if (std::abs(d * c - 1) < 1e-16) break;
  }
  return gamma_front(a, x) * value;
}

}  // namespace

double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

double regularised_beta(double a, double b, double x, double y) {
  if (x <= 0) return 0;
  if (y <= 0) return 1;
  const double front = std::exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * std::log(x) + b * std::log(y));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, y) / b;
}

double inverse_regularised_beta(double probability, double a, double b) {
  if (probability <= 0) return 0;
  if (probability >= 1) return 1;
  return solve([&](double x) { return regularised_beta(a, b, x, 1 - x) - probability; }, 0.0, 1.0, 1e-15);
}

double regularised_gamma(double a, double x) {
  if (x <= 0) return 0;
  return x < a + 1 ? gamma_series(a, x) : 1 - gamma_fraction(a, x);
}

double regularised_gamma_upper(double a, double x) {
  if (x <= 0) return 1;
  return x < a + 1 ? 1 - gamma_series(a, x) : gamma_fraction(a, x);
}

double chi_square_cdf(double x, double freedom) { return regularised_gamma(freedom / 2, x / 2); }

double chi_square_quantile(double probability, double freedom) {
  // Uses the smaller tail, which keeps its digits.
  const auto excess = [&](double x) {
    return probability < 0.5 ? chi_square_cdf(x, freedom) - probability
                             : (1 - probability) - regularised_gamma_upper(freedom / 2, x / 2);
  };
  // Wilson and Hilferty's cube is a good start; the bracket grows from it.
  const double part = 2 / (9 * freedom);
  const double near = freedom * std::pow(std::max(1 - part + normal_quantile(probability) * std::sqrt(part), 0.05), 3);
  double low = near * 0.9, high = near * 1.1;
  while (low > 1e-300 && excess(low) > 0) high = low, low *= 0.1;
  while (excess(high) < 0) low = high, high *= 2;
  return solve(excess, low, high, 1e-15);
}

SpreadNodes spread_nodes(double freedom, double width) {
  // The trapezoidal rule in u = log S: S has density S^(f-1) exp(-f S^2 / 2), so u has exp(f (u - e^2u / 2)). This
  // decays fast on both sides of 0 and is analytic, so the error decreases exponentially with the step.
  constexpr double kNegligible = 40;  // e^-40 of the density's maximum
  const auto log_density = [&](double u) { return freedom * (u - 0.5 * std::expm1(2 * u)); };
  const double deviation = 1 / std::sqrt(2 * freedom);
  const double low = -kNegligible / freedom - 9 * deviation;
  double high = 9 * deviation;
  while (high > deviation && log_density(high) < -kNegligible) high *= 0.9;
  const double step = std::min(0.25 * deviation, 0.4 * width);
  SpreadNodes nodes;
  double sum = 0;
  for (double u = low; u <= high / 0.9; u += step) {
    const double weight = std::exp(log_density(u));
    if (weight < 1e-18) continue;
    nodes.s.push_back(std::exp(u));
    nodes.weight.push_back(weight);
    sum += weight;
  }
  for (double& weight : nodes.weight) weight /= sum;
  return nodes;
}

}  // namespace normlab
