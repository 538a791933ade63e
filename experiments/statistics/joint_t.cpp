#include "experiments/statistics/joint_t.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <tuple>
#include <utility>

#include "core/random.h"
#include "experiments/statistics/solve.h"
#include "experiments/statistics/special.h"
#include "experiments/statistics/student.h"

namespace normlab {
namespace {

/// Number of variables per load.
using Loads = std::map<double, std::size_t>;

Loads loads_of(const SharedNoise& noise) {
  Loads loads;
  for (const SharedNoise::Row& row : noise.rows)
    if (row.count > 0) loads[row.load] += row.count;
  return loads;
}

double own_share(double load) { return std::sqrt(1 - load * load); }

double power(double base, std::size_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

/// Points and weights for U by the trapezoidal rule. Its error for analytic integrands that decay like these is
/// negligible if the step resolves the steepest of them.
struct Points {
  std::vector<double> u, weight;
};

Points points_of(double largest_load, double from) {
  const double step = 0.25 / std::max(1.0, largest_load / own_share(largest_load));
  const int reach = int(std::ceil(8.5 / step));
  Points points;
  for (int i = from < 0 ? -reach : 0; i <= reach; ++i) {
    const double u = i * step;
    points.u.push_back(u);
    points.weight.push_back(step * std::exp(-u * u / 2) / std::sqrt(2 * std::numbers::pi));
  }
  return points;
}

/// The distribution of max |X_i| / S, prepared for many critical values.
class LargestT {
 public:
  LargestT(const Loads& loads, double freedom) : spread_(spread_nodes(freedom, 0.15)) {
    // The value |X| does not depend on the sign of U, so half of the points suffice.
    const Points points = points_of(loads.rbegin()->first, 0);
    weight_ = points.weight;
    for (std::size_t i = 1; i < weight_.size(); ++i) weight_[i] *= 2;
    for (const auto& [load, count] : loads) {
      scaled_.push_back({1 / own_share(load), count});
      for (const double u : points.u) shifts_.push_back(load * u / own_share(load));
    }
  }

  double probability(double critical) const {
    double sum = 0;
    for (std::size_t i = 0; i < spread_.s.size(); ++i)
      for (std::size_t u = 0; u < weight_.size(); ++u)
        sum += spread_.weight[i] * weight_[u] * inside(u, critical * spread_.s[i]);
    return std::min(sum, 1.0);
  }

 private:
  /// P(all |X_i| <= edge) given point `u` of U.
  double inside(std::size_t u, double edge) const {
    double product = 1;
    const double* shift = &shifts_[u];
    for (const auto& [scale, count] : scaled_) {
      product *= power(normal_cdf(edge * scale - *shift) - normal_cdf(-edge * scale - *shift), count);
      if (product < 1e-18) return 0;
      shift += weight_.size();
    }
    return product;
  }

  struct Scaled {
    double scale;
    std::size_t count;
  };
  SpreadNodes spread_;
  std::vector<double> weight_;
  std::vector<Scaled> scaled_;
  std::vector<double> shifts_;  // [loads][points], in units of the variable's own share
};

double critical_value(const Loads& loads, double freedom, double level) {
  std::size_t k = 0;
  for (const auto& [load, count] : loads) k += count;
  const double low = student_t_two_sided_quantile(1 - level, freedom);
  if (k == 1) return low;
  // The result lies between one comparison and Bonferroni's k. On this range, the logarithms of tail and critical value
  // are almost linearly related.
  const double high = student_t_two_sided_quantile((1 - level) / double(k), freedom);
  const LargestT largest(loads, freedom);
  const auto excess = [&](double log_c) {
    return std::log(1 - level) - std::log(std::max(1 - largest.probability(std::exp(log_c)), 1e-300));
  };
  return std::exp(solve(excess, std::log(low) - 1e-3, std::log(high) + 1e-3, 1e-11));
}

/// P(all gains of a group <= x).
class LargestGain {
 public:
  explicit LargestGain(const ChanceGroup& group) {
    std::map<std::pair<double, double>, std::size_t> rows;
    double largest_load = 0;
    for (std::size_t i = 0; i < group.noise.rows.size(); ++i) {
      const SharedNoise::Row& row = group.noise.rows[i];
      rows[{row.load, group.standard_errors[i]}] += row.count;
      largest_load = std::max(largest_load, row.load);
    }
    for (const auto& [row, count] : rows) gains_.push_back({row.first, own_share(row.first), row.second, count});
    points_ = points_of(largest_load, -1);
  }

  double below(double x) const {
    double sum = 0;
    for (std::size_t u = 0; u < points_.u.size(); ++u) {
      double product = points_.weight[u];
      for (std::size_t i = 0; i < gains_.size() && product > 1e-18; ++i) {
        const Gain& gain = gains_[i];
        product *= power(normal_cdf((x / gain.standard_error - gain.load * points_.u[u]) / gain.share), gain.count);
      }
      sum += product;
    }
    return sum;
  }

 private:
  struct Gain {
    double load, share, standard_error;
    std::size_t count;
  };
  std::vector<Gain> gains_;
  Points points_;
};

}  // namespace

std::size_t SharedNoise::size() const {
  std::size_t k = 0;
  for (const Row& row : rows) k += row.count;
  return k;
}

SharedNoise SharedNoise::common(std::size_t k, double load) {
  SharedNoise noise;
  noise.rows.push_back({.load = load, .count = k});
  return noise;
}

SharedNoise nearest_shared_noise(const std::vector<std::vector<double>>& correlations,
                                 const std::vector<std::size_t>& counts) {
  constexpr double kLargestLoad = 0.999;
  const std::size_t lines = counts.size();
  std::vector<double> loads(lines, std::sqrt(0.5));
  for (int sweep = 0; sweep < 1000; ++sweep) {
    double change = 0;
    for (std::size_t i = 0; i < lines; ++i) {
      double products = 0, squares = 0;
      for (std::size_t j = 0; j < lines; ++j) {
        const double pairs = double(counts[j]) - (i == j ? 1 : 0);
        products += pairs * correlations[i][j] * loads[j];
        squares += pairs * loads[j] * loads[j];
      }
      if (!(squares > 0)) continue;
      const double next = std::clamp(products / squares, 0.0, kLargestLoad);
      change = std::max(change, std::abs(next - loads[i]));
      loads[i] = next;
    }
    if (change < 1e-12) break;
  }
  SharedNoise noise;
  for (std::size_t i = 0; i < lines; ++i) noise.rows.push_back({.load = loads[i], .count = counts[i]});
  return noise;
}

std::vector<double> joint_t_probabilities(const SharedNoise& noise, double freedom,
                                          const std::vector<double>& criticals) {
  const Loads loads = loads_of(noise);
  if (loads.empty()) return std::vector<double>(criticals.size(), 1.0);
  std::vector<double> result;
  if (noise.size() == 1) {
    for (const double critical : criticals)
      result.push_back(critical > 0 ? 1 - student_t_two_sided(critical, freedom) : 0);
    return result;
  }
  const LargestT largest(loads, freedom);
  for (const double critical : criticals) result.push_back(critical > 0 ? largest.probability(critical) : 0);
  return result;
}

double joint_t_critical(const SharedNoise& noise, double freedom, double level) {
  static std::mutex mutex;
  static std::map<std::tuple<Loads, double, double>, double> known;
  auto key = std::make_tuple(loads_of(noise), freedom, level);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const double critical = critical_value(std::get<0>(key), freedom, level);
  const std::lock_guard lock(mutex);
  return known.emplace(std::move(key), critical).first->second;
}

double expected_best(const std::vector<ChanceGroup>& groups) {
  std::vector<LargestGain> gains;
  double widest = 0, narrowest = 0;
  std::size_t k = 0;
  for (const ChanceGroup& group : groups) {
    if (group.noise.rows.empty()) continue;
    gains.emplace_back(group);
    k += group.noise.size();
    for (const double error : group.standard_errors) {
      widest = std::max(widest, error);
      narrowest = narrowest == 0 ? error : std::min(narrowest, error);
    }
  }
  if (k < 2) return 0;
  // E max = integral of (1 - P(max <= x)) over x > 0 minus that of P(max <= x) over x < 0. Equivalently: the
  // integral of a normal distribution function, whose mean is 0, minus P(max <= x), a smooth function that vanishes
  // at both ends.
  const double step = 0.1 * widest * std::clamp(narrowest / widest, 0.25, 1.0);
  double sum = 0;
  for (double x = -9 * widest; x <= 9 * widest; x += step) {
    double all_below = 1;
    for (const LargestGain& gain : gains) all_below *= gain.below(x);
    sum += normal_cdf(x / widest) - all_below;
  }
  return sum * step;
}

}  // namespace normlab
