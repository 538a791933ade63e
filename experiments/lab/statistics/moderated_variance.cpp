#include "experiments/lab/statistics/moderated_variance.h"

#include <algorithm>
#include <cmath>

#include "experiments/lab/statistics/solve.h"
#include "experiments/lab/statistics/special.h"

namespace normlab {
namespace {

constexpr double kSeries = 16;  // from here on the asymptotic series have all digits

/// Derivative of log Gamma, minus log(x).
double digamma_less_log(double x) {
  double below = 0;
  const double given = x;
  for (; x < kSeries; ++x) below += 1 / x;
  const double y = 1 / (x * x);
  return std::log(x / given) - below - 0.5 / x -
         y * (1 / 12.0 - y * (1 / 120.0 - y * (1 / 252.0 - y * (1 / 240.0 - y / 132))));
}

double trigamma(double x) {
  double below = 0;
  for (; x < kSeries; ++x) below += 1 / (x * x);
  const double y = 1 / (x * x);
  return below + 1 / x + y / 2 + y / x * (1 / 6.0 - y * (1 / 30.0 - y * (1 / 42.0 - y * (1 / 30.0 - y * 5 / 66))));
}

/// 1/x < trigamma(x) < 1/x + 1/x^2 gives the bounds.
double trigamma_inverse(double y) {
  return solve([y](double x) { return trigamma(x) - y; }, 1 / y, (1 + std::sqrt(1 + 4 * y)) / (2 * y));
}

/// P(F >= ratio) for F with these degrees of freedom.
double f_tail(double ratio, double above, double below) {
  const double whole = below + above * ratio;
  return regularised_beta(below / 2, above / 2, below / whole, above * ratio / whole);
}

}  // namespace

Variance prior_variance(std::span<const Variance> rows) {
  if (rows.size() < 2) return {};
  const double n = double(rows.size());
  double mean = 0, arithmetic = 0, by_chance = 0, spread = 0;
  const auto centred_log = [](const Variance& row) { return std::log(row.value) - digamma_less_log(row.freedom / 2); };
  for (const Variance& row : rows) {
    mean += centred_log(row) / n;
    arithmetic += row.value / n;
    by_chance += trigamma(row.freedom / 2) / n;
  }
  for (const Variance& row : rows) spread += std::pow(centred_log(row) - mean, 2) / (n - 1);
  if (!(spread > by_chance)) return {.value = arithmetic, .freedom = INFINITY};
  const double half = trigamma_inverse(spread - by_chance);
  return {.value = std::exp(mean + digamma_less_log(half)), .freedom = 2 * half};
}

Variance moderated(const Variance& row, const Variance& prior, std::size_t rows) {
  const double most = std::min(4.0, (double(rows) - 1) / 2) * row.freedom;
  double borrowed = std::min(prior.freedom / 2, most);
  if (!(borrowed > 0)) return row;
  borrowed *= std::min(1.0, f_tail(row.value / prior.value, row.freedom, borrowed) / 0.1);
  const double freedom = borrowed + row.freedom;
  return {.value = (borrowed * prior.value + row.freedom * row.value) / freedom, .freedom = freedom};
}

}  // namespace normlab
