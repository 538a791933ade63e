#include "experiments/lab/statistics/planning.h"

#include <cmath>

#include "core/random.h"
#include "experiments/lab/statistics/solve.h"
#include "experiments/lab/statistics/special.h"

namespace normlab {

double t_test_power(double shift, double freedom, double critical) {
  const SpreadNodes nodes = spread_nodes(freedom, 1 / (1 + std::abs(shift)));
  double sum = 0;
  for (std::size_t i = 0; i < nodes.s.size(); ++i) {
    const double edge = critical * nodes.s[i];
    sum += nodes.weight[i] * (normal_cdf(shift - edge) + normal_cdf(-shift - edge));
  }
  return sum;
}

double smallest_shift(double freedom, double critical, double power) {
  const auto missing = [&](double shift) { return t_test_power(shift, freedom, critical) - power; };
  if (missing(0) >= 0) return 0;
  double high = 1;
  while (missing(high) < 0) high *= 2;
  return solve(missing, high == 1 ? 0 : high / 2, high, 1e-12);
}

SdRange sd_range(double freedom, double level) {
  const double tail = (1 - level) / 2;
  return {.low = std::sqrt(freedom / chi_square_quantile(1 - tail, freedom)),
          .high = std::sqrt(freedom / chi_square_quantile(tail, freedom))};
}

}  // namespace normlab
