#include "experiments/lab/data/draws.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace normlab {
namespace {

/// log of the gamma function; std::lgamma writes its sign to a global variable.
double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

/// The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), evaluated forwards by Lentz's
/// method. Converges in a few dozen terms for x < (a + 1) / (a + b + 2).
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300;
  const auto away_from_zero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m <= 10000; ++m) {
    const double k = m;
    const auto term = [&](double coefficient) {
      d = 1 / away_from_zero(1 + coefficient * d);
      c = away_from_zero(1 + coefficient / c);
      value *= c * d;
    };
    term(k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k)));
    term(-(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1)));
    if (std::abs(c * d - 1) < 1e-15) break;
  }
  return value;
}

/// log(1 + exp(u)) without overflow.
double softplus(double u) { return std::max(u, 0.0) + std::log1p(std::exp(-std::abs(u))); }

struct LogBeta {
  double value, slope;  // log of the distribution function, and its derivative, at the log-odds of x
};

LogBeta log_beta_cdf(double log_odds, double a, double b, double log_complete) {
  const double log_x = -softplus(-log_odds), log_y = -softplus(log_odds), x = std::exp(log_x);
  const double log_density = a * log_x + b * log_y - log_complete;  // with respect to log-odds
  double value = 0;
  if (x < (a + 1) / (a + b + 2))
    value = log_density - std::log(a) + std::log(beta_fraction(x, a, b));
  else
    value = std::log1p(-std::exp(log_density - std::log(b)) * beta_fraction(std::exp(log_y), b, a));
  return {value, std::exp(log_density - value)};
}

/// Log-odds of the quantile, p at most one half. The log of the distribution function is concave in the log-odds
/// and nearly linear in the lower tail, so Newton's steps do not overshoot from below; the bracket handles a
/// first step from above.
double lower_log_odds(double p, double a, double b) {
  const double log_complete = log_gamma(a) + log_gamma(b) - log_gamma(a + b), target = std::log(p);
  double u = std::min((target + std::log(a) + log_complete) / a, std::log(a / b));
  double low = -std::numeric_limits<double>::infinity(), high = -low;
  for (int i = 0; i < 100; ++i) {
    const LogBeta at = log_beta_cdf(u, a, b, log_complete);
    (at.value < target ? low : high) = u;
    double next = u - (at.value - target) / at.slope;
    if (!(next > low && next < high))
      next = std::isinf(low) ? u - 1 - std::abs(u) : std::isinf(high) ? u + 1 : (low + high) / 2;
    const double step = std::abs(next - u);
    u = next;
    if (step <= 1e-15 * std::max(1.0, std::abs(u))) break;
  }
  return u;
}

}  // namespace

std::uint32_t AugmentDraws::below(std::uint32_t n, DrawName name, std::uint32_t index) const {
  const auto w = words(name, index);
  // The upper 32 of 96 bits: (w0 2^32 + w1) n / 2^64.
  return static_cast<std::uint32_t>((std::uint64_t{w[0]} * n + (std::uint64_t{w[1]} * n >> 32)) >> 32);
}

double AugmentDraws::beta(double a, double b, DrawName name, std::uint32_t index) const {
  return beta_quantile(uniform(name, index), a, b);
}

double beta_quantile(double p, double a, double b) {
  // Uses the nearer tail: 1 - p is exact if it is the smaller one.
  const double u = p > 0.5 ? -lower_log_odds(1 - p, b, a) : lower_log_odds(p, a, b);
  return std::exp(-softplus(-u));
}

}  // namespace normlab
