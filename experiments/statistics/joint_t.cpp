#include "experiments/statistics/joint_t.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <optional>
#include <tuple>

#include "core/random.h"
#include "experiments/statistics/solve.h"
#include "experiments/statistics/special.h"
#include "experiments/statistics/student.h"

namespace normlab {
namespace {

using Row = SharedNoise::Row;

/// Equal rows become one, in a fixed order.
std::vector<Row> merged(std::vector<Row> rows) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.loads < b.loads; });
  std::vector<Row> result;
  for (Row& row : rows) {
    if (row.count == 0) continue;
    if (!result.empty() && result.back().loads == row.loads)
      result.back().count += row.count;
    else
      result.push_back(std::move(row));
  }
  return result;
}

double own_share(const Row& row) {
  double shared = 0;
  for (const double load : row.loads) shared += load * load;
  return std::sqrt(std::max(1 - shared, 1e-12));
}

double power(double base, std::size_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

/// Points of the shared factors U with weights whose sum is 1: along a line the trapezoidal rule, whose error for
/// analytic integrands is negligible here; in space a lattice by powers of the generalised golden ratio.
struct FactorNodes {
  std::size_t factors = 0;
  std::vector<double> u, weight;  // u: weight.size() x factors
};

FactorNodes line_nodes(const std::vector<Row>& rows) {
  FactorNodes nodes{.factors = 1, .u = {}, .weight = {}};
  double steepest = 1;
  for (const Row& row : rows) steepest = std::max(steepest, std::abs(row.loads[0]) / own_share(row));
  const double step = 0.25 / steepest;
  const int reach = int(std::ceil(8.5 / step));
  for (int i = -reach; i <= reach; ++i) {
    const double u = i * step;
    nodes.u.push_back(u);
    nodes.weight.push_back(step * std::exp(-u * u / 2) / std::sqrt(2 * std::numbers::pi));
  }
  return nodes;
}

/// Coordinate `axis` of point `index` of the lattice in (0, 1)^axes, after the baker's map, which makes the integrand
/// periodic.
class Lattice {
 public:
  explicit Lattice(std::size_t axes) {
    // The real root of x^(axes + 1) = x + 1.
    const double root = solve([&](double x) { return std::pow(x, double(axes + 1)) - x - 1; }, 1.0, 2.0);
    for (std::size_t axis = 0; axis < axes; ++axis) steps_.push_back(std::pow(root, -double(axis + 1)));
  }
  double at(std::size_t index, std::size_t axis) const {
    const double x = 0.5 + double(index) * steps_[axis], part = x - std::floor(x);
    return std::clamp(1 - std::abs(2 * part - 1), 1e-12, 1 - 1e-12);
  }

 private:
  std::vector<double> steps_;
};

FactorNodes space_nodes(std::size_t factors, std::size_t points, const Lattice& lattice) {
  FactorNodes nodes{.factors = factors, .u = {}, .weight = std::vector<double>(points, 1 / double(points))};
  for (std::size_t i = 0; i < points; ++i)
    for (std::size_t f = 0; f < factors; ++f) nodes.u.push_back(normal_quantile(lattice.at(i, f)));
  return nodes;
}

/// P(all |X_i| <= edge) given the factors: X_i has mean shift_i there and the sd of its own share. Everything but
/// `edge` is worked out once.
class GivenFactors {
 public:
  GivenFactors(const std::vector<Row>& rows, const std::vector<double>& points) {
    const std::size_t factors = rows[0].loads.size();
    for (const Row& row : rows) scaled_.push_back({1 / own_share(row), row.count});
    shifts_.reserve(points.size() / factors * rows.size());
    for (std::size_t i = 0; i < points.size(); i += factors)
      for (std::size_t r = 0; r < rows.size(); ++r) {
        double shift = 0;
        for (std::size_t f = 0; f < factors; ++f) shift += rows[r].loads[f] * points[i + f];
        shifts_.push_back(shift * scaled_[r].scale);
      }
  }

  double inside(std::size_t point, double edge) const {
    double product = 1;
    const double* shift = &shifts_[point * scaled_.size()];
    for (const auto& [scale, count] : scaled_) {
      product *= power(normal_cdf(edge * scale - *shift) - normal_cdf(-edge * scale - *shift), count);
      if (product < 1e-18) return 0;
      ++shift;
    }
    return product;
  }

 private:
  struct Scaled {
    double scale;
    std::size_t count;
  };
  std::vector<Scaled> scaled_;
  std::vector<double> shifts_;
};

/// P(max |X_i| / S <= critical) for rows with one factor, by quadrature.
class OneFactor {
 public:
  OneFactor(const std::vector<Row>& rows, double freedom)
      : factor_(half_line(rows)), given_(rows, factor_.u), spread_(spread_nodes(freedom, 0.15)) {}

  double probability(double critical) const {
    double sum = 0;
    for (std::size_t i = 0; i < spread_.s.size(); ++i) {
      double given_spread = 0;
      for (std::size_t u = 0; u < factor_.weight.size(); ++u)
        given_spread += factor_.weight[u] * given_.inside(u, critical * spread_.s[i]);
      sum += spread_.weight[i] * given_spread;
    }
    return std::min(sum, 1.0);
  }

 private:
  /// |X| does not change with the sign of U.
  static FactorNodes half_line(const std::vector<Row>& rows) {
    FactorNodes nodes = line_nodes(rows);
    const auto half = std::ptrdiff_t(nodes.weight.size() / 2);
    nodes.u.erase(nodes.u.begin(), nodes.u.begin() + half);
    nodes.weight.erase(nodes.weight.begin(), nodes.weight.begin() + half);
    for (std::size_t i = 1; i < nodes.weight.size(); ++i) nodes.weight[i] *= 2;
    return nodes;
  }

  FactorNodes factor_;
  GivenFactors given_;
  SpreadNodes spread_;
};

/// The same for several factors: the sum over a lattice. Its error is mostly that of a neighbour with one factor, the
/// direction that the rows have most in common, for which the exact value is known: that part is taken off.
class SeveralFactors {
 public:
  SeveralFactors(const std::vector<Row>& rows, double freedom)
      : SeveralFactors(rows, freedom, common_direction(rows), rows[0].loads.size()) {}

  double probability(double critical) const {
    double change = 0;
    for (std::size_t i = 0; i < spread_.size(); ++i)
      change += given_->inside(i, critical * spread_[i]) - given_neighbour_->inside(i, critical * spread_[i]);
    return std::clamp(neighbour_.probability(critical) + change / double(spread_.size()), 0.0, 1.0);
  }

 private:
  SeveralFactors(const std::vector<Row>& rows, double freedom, const std::vector<double>& direction,
                 std::size_t factors)
      : neighbour_(projected(rows, direction), freedom) {
    const auto points = std::size_t(std::clamp(1e6 / double(rows.size()), 512.0, 4096.0));
    const Lattice lattice(factors + 1);
    const FactorNodes nodes = space_nodes(factors, points, lattice);
    std::vector<double> along(points);
    for (std::size_t i = 0; i < points; ++i) {
      for (std::size_t f = 0; f < factors; ++f) along[i] += direction[f] * nodes.u[i * factors + f];
      spread_.push_back(std::sqrt(chi_square_quantile(lattice.at(i, factors), freedom) / freedom));
    }
    given_.emplace(rows, nodes.u);
    given_neighbour_.emplace(projected(rows, direction), along);
  }

  static std::vector<double> common_direction(const std::vector<Row>& rows) {
    std::vector<double> direction(rows[0].loads.size());
    for (const Row& row : rows)
      for (std::size_t f = 0; f < direction.size(); ++f) direction[f] += double(row.count) * row.loads[f];
    double length = 0;
    for (const double part : direction) length += part * part;
    if (!(length > 0)) direction[0] = length = 1;
    for (double& part : direction) part /= std::sqrt(length);
    return direction;
  }
  static std::vector<Row> projected(std::vector<Row> rows, const std::vector<double>& direction) {
    for (Row& row : rows) {
      double load = 0;
      for (std::size_t f = 0; f < direction.size(); ++f) load += row.loads[f] * direction[f];
      row.loads = {load};
    }
    return merged(std::move(rows));
  }

  OneFactor neighbour_;
  std::optional<GivenFactors> given_, given_neighbour_;
  std::vector<double> spread_;
};

/// Ready to be asked for many critical values.
class LargestT {
 public:
  LargestT(const std::vector<Row>& rows, double freedom) {
    if (rows[0].loads.size() == 1)
      one_.emplace(rows, freedom);
    else
      several_.emplace(rows, freedom);
  }
  double probability(double critical) const {
    return one_ ? one_->probability(critical) : several_->probability(critical);
  }

 private:
  std::optional<OneFactor> one_;
  std::optional<SeveralFactors> several_;
};

double critical_value(const std::vector<Row>& rows, std::size_t k, double freedom, double level) {
  if (k == 1) return student_t_two_sided_quantile(1 - level, freedom);
  const LargestT largest(rows, freedom);
  // Between one comparison and Bonferroni's k; there the logarithms of tail and critical value are nearly a line.
  const double low = student_t_two_sided_quantile(1 - level, freedom);
  const double high = student_t_two_sided_quantile((1 - level) / double(k), freedom);
  const auto excess = [&](double log_c) {
    return std::log(1 - level) - std::log(std::max(1 - largest.probability(std::exp(log_c)), 1e-300));
  };
  const double log_low = std::log(low) - 1e-3, log_high = std::log(high) + 1e-3;
  return std::exp(solve(excess, log_low, log_high, rows[0].loads.size() == 1 ? 1e-11 : 1e-7));
}

}  // namespace

std::size_t SharedNoise::size() const {
  std::size_t k = 0;
  for (const Row& row : rows) k += row.count;
  return k;
}

SharedNoise SharedNoise::common(std::size_t k, double load) {
  SharedNoise noise;
  noise.rows.push_back({.loads = {load}, .count = k});
  return noise;
}

std::vector<double> joint_t_probabilities(const SharedNoise& noise, double freedom,
                                          const std::vector<double>& criticals) {
  const std::vector<Row> rows = merged(noise.rows);
  std::vector<double> result;
  if (rows.empty()) return std::vector<double>(criticals.size(), 1.0);
  if (rows.size() == 1 && rows[0].count == 1) {
    for (const double critical : criticals)
      result.push_back(critical > 0 ? 1 - student_t_two_sided(critical, freedom) : 0);
    return result;
  }
  const LargestT largest(rows, freedom);
  for (const double critical : criticals) result.push_back(critical > 0 ? largest.probability(critical) : 0);
  return result;
}

double joint_t_probability(const SharedNoise& noise, double freedom, double critical) {
  return joint_t_probabilities(noise, freedom, {critical})[0];
}

double joint_t_critical(const SharedNoise& noise, double freedom, double level) {
  const std::vector<Row> rows = merged(noise.rows);
  std::vector<std::pair<std::vector<double>, std::size_t>> loads;
  std::size_t k = 0;
  for (const Row& row : rows) loads.emplace_back(row.loads, row.count), k += row.count;
  static std::mutex mutex;
  static std::map<std::tuple<decltype(loads), double, double>, double> known;
  auto key = std::make_tuple(std::move(loads), freedom, level);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const double critical = critical_value(rows, k, freedom, level);
  const std::lock_guard lock(mutex);
  return known.emplace(std::move(key), critical).first->second;
}

namespace {

/// P(all gains of the group <= x), by the nodes of its factors.
class LargestGain {
 public:
  explicit LargestGain(const ChanceGroup& group) {
    std::map<std::pair<std::vector<double>, double>, std::size_t> rows;
    for (std::size_t i = 0; i < group.noise.rows.size(); ++i)
      rows[{group.noise.rows[i].loads, group.standard_errors[i]}] += group.noise.rows[i].count;
    std::vector<Row> plain;
    for (const auto& [row, count] : rows) {
      rows_.push_back({row.first, row.second, count});
      plain.push_back({row.first, 1});
    }
    const std::size_t factors = plain[0].loads.size();
    factors_ = factors == 1 ? line_nodes(plain) : space_nodes(factors, 1024, Lattice(factors));
    shares_.reserve(plain.size());
    for (const Row& row : plain) shares_.push_back(own_share(row));
  }

  double below(double x) const {
    double sum = 0;
    for (std::size_t u = 0; u < factors_.weight.size(); ++u) {
      double product = factors_.weight[u];
      for (std::size_t i = 0; i < rows_.size() && product > 1e-18; ++i) {
        double shift = 0;
        for (std::size_t f = 0; f < factors_.factors; ++f)
          shift += rows_[i].loads[f] * factors_.u[u * factors_.factors + f];
        product *= power(normal_cdf((x / rows_[i].standard_error - shift) / shares_[i]), rows_[i].count);
      }
      sum += product;
    }
    return sum;
  }

 private:
  struct Gain {
    std::vector<double> loads;
    double standard_error;
    std::size_t count;
  };
  std::vector<Gain> rows_;
  std::vector<double> shares_;
  FactorNodes factors_;
};

}  // namespace

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
  // E max = integral of P(max > x) over x > 0 less that of P(max <= x) over x < 0. The trapezoidal rule on the whole
  // line for P(max <= x) less a normal distribution function, whose mean is 0: a smooth integrand that vanishes at both
  // ends.
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
