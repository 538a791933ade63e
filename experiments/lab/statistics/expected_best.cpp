#include "experiments/lab/statistics/expected_best.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "core/random.h"

namespace normlab {
namespace {

/// P(all gains of a group <= x). A gain is its standard error times sqrt(1/2) (U + Z), where the rows share U.
double below(const std::map<double, std::size_t>& rows, double x) {
  // The trapezoidal rule: its error is negligible for analytic integrands that decay like these.
  constexpr double kStep = 0.25, kReach = 8.5;
  double sum = 0;
  for (double u = -kReach; u <= kReach; u += kStep) {
    double product = kStep * std::exp(-u * u / 2) / std::sqrt(2 * std::numbers::pi);
    for (const auto& [error, count] : rows)
      if (product > 1e-18) product *= std::pow(normal_cdf(std::numbers::sqrt2 * x / error - u), double(count));
    sum += product;
  }
  return sum;
}

}  // namespace

double expected_best(const std::vector<std::vector<double>>& groups) {
  std::vector<std::map<double, std::size_t>> rows;
  double widest = 0, narrowest = INFINITY;
  std::size_t k = 0;
  for (const std::vector<double>& group : groups) {
    rows.emplace_back();
    for (const double error : group) {
      ++rows.back()[error];
      widest = std::max(widest, error);
      narrowest = std::min(narrowest, error);
    }
    k += group.size();
  }
  if (k < 2) return 0;
  // E max = integral of (1 - P(max <= x)) over x > 0 minus that of P(max <= x) over x < 0. Equivalently: the
  // integral of a normal distribution function, whose mean is 0, minus P(max <= x), a smooth function that vanishes
  // at both ends.
  const double step = 0.1 * widest * std::clamp(narrowest / widest, 0.1, 1.0);
  double sum = 0;
  for (double x = -9 * widest; x <= 9 * widest; x += step) {
    double all_below = 1;
    for (const auto& group : rows) all_below *= below(group, x);
    sum += normal_cdf(x / widest) - all_below;
  }
  return sum * step;
}

}  // namespace normlab
