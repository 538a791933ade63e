#include "experiments/statistics/strip_noise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "experiments/statistics/special.h"

namespace normlab {
namespace {

double mean_of(const SeedValues& row) {
  double sum = 0;
  for (const auto& [seed, value] : row) sum += value;
  return sum / double(row.size());
}

/// A run, with the row's mean subtracted.
struct Run {
  std::size_t seed;
  double value;
};

struct Runs {
  std::vector<Run> all;
  std::vector<std::size_t> of_row;  // numbers of runs of the nonempty rows
  std::size_t seeds = 0;
};

Runs runs_of(std::span<const SeedValues* const> rows) {
  std::map<std::uint64_t, std::size_t> seeds;
  for (const SeedValues* row : rows)
    for (const auto& [seed, value] : *row) seeds.emplace(seed, 0);
  std::size_t next = 0;
  for (auto& [seed, index] : seeds) index = next++;
  Runs runs;
  runs.seeds = seeds.size();
  for (const SeedValues* row : rows) {
    if (row->empty()) continue;
    const double center = mean_of(*row);
    for (const auto& [seed, value] : *row) runs.all.push_back({seeds[seed], value - center});
    runs.of_row.push_back(row->size());
  }
  return runs;
}

/// Solves matrix x = right in place for a symmetric positive semidefinite matrix (n x n); directions without weight get
/// 0. Returns the rank.
std::size_t solve_semidefinite(std::vector<double>& matrix, std::vector<double>& right) {
  const std::size_t n = right.size();
  std::vector<double> height(n);
  for (std::size_t i = 0; i < n; ++i) height[i] = matrix[i * n + i];
  std::vector<bool> pivot(n);
  std::size_t rank = 0;
  for (std::size_t i = 0; i < n; ++i) {
    pivot[i] = matrix[i * n + i] > 1e-9 * height[i];
    if (!pivot[i]) continue;
    ++rank;
    for (std::size_t j = i + 1; j < n; ++j) {
      const double factor = matrix[j * n + i] / matrix[i * n + i];
      if (factor == 0) continue;
      for (std::size_t c = i; c < n; ++c) matrix[j * n + c] -= factor * matrix[i * n + c];
      right[j] -= factor * right[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    if (!pivot[i]) {
      right[i] = 0;
      continue;
    }
    for (std::size_t c = i + 1; c < n; ++c) right[i] -= matrix[i * n + c] * right[c];
    right[i] /= matrix[i * n + i];
  }
  return rank;
}

/// Normal equations of the seeds' effects, with the rows' effects eliminated.
struct SeedEquations {
  std::vector<double> matrix, right;
  double squares = 0;  // within rows
  std::size_t runs = 0, rows = 0;

  explicit SeedEquations(std::size_t seeds) : matrix(seeds * seeds), right(seeds) {}

  /// Adds (sign 1) or removes (-1) one row's runs.
  void add(std::span<const Run> row, double sign) {
    const double share = sign / double(row.size());
    for (const Run& a : row) {
      matrix[a.seed * right.size() + a.seed] += sign;
      right[a.seed] += sign * a.value;
      squares += sign * a.value * a.value;
      for (const Run& b : row) matrix[a.seed * right.size() + b.seed] -= share;
    }
    runs = std::size_t(double(runs) + sign * double(row.size()));
    rows = std::size_t(double(rows) + sign);
  }

  /// The residual squares after the seeds' effects.
  Squares left() const {
    std::vector<double> work = matrix, effects = right;
    const std::size_t rank = solve_semidefinite(work, effects);
    Squares result{.sum = squares, .freedom = double(runs) - double(rows) - double(rank)};
    for (std::size_t s = 0; s < right.size(); ++s) result.sum -= effects[s] * right[s];
    result.sum = std::max(result.sum, 0.0);
    return result;
  }
};

std::vector<std::span<const Run>> by_row(const Runs& runs) {
  std::vector<std::span<const Run>> rows;
  std::size_t begin = 0;
  for (const std::size_t count : runs.of_row) {
    rows.emplace_back(&runs.all[begin], count);
    begin += count;
  }
  return rows;
}

/// For all rows, and for all but each row.
struct Squared {
  Squares all;
  std::vector<Squares> without;
};

Squared without_seeds(const Runs& runs) {
  Squared result;
  for (const Run& run : runs.all) result.all.sum += run.value * run.value;
  result.all.freedom = double(runs.all.size()) - double(runs.of_row.size());
  for (const auto& row : by_row(runs)) {
    Squares rest = result.all;
    for (const Run& run : row) rest.sum -= run.value * run.value;
    rest.freedom -= double(row.size()) - 1;
    result.without.push_back(rest);
  }
  return result;
}

/// The complete case: a row adds the squares of its deviation from the mean of the others.
Squared after_complete_seeds(const Runs& runs) {
  const double rows = double(runs.of_row.size()), seeds = double(runs.seeds);
  std::vector<double> sum(runs.seeds);
  for (const Run& run : runs.all) sum[run.seed] += run.value;
  Squared result;
  result.all.freedom = (rows - 1) * (seeds - 1);
  for (const Run& run : runs.all) {
    const double left = run.value - sum[run.seed] / rows;
    result.all.sum += left * left;
  }
  for (const auto& row : by_row(runs)) {
    Squares rest{.sum = result.all.sum, .freedom = (rows - 2) * (seeds - 1)};
    for (const Run& run : row) {
      const double apart = run.value - (sum[run.seed] - run.value) / (rows - 1);
      rest.sum -= apart * apart * (rows - 1) / rows;
    }
    result.without.push_back(rest);
  }
  return result;
}

Squared after_seeds(const Runs& runs) {
  if (runs.of_row.size() > 1 && runs.all.size() == runs.of_row.size() * runs.seeds) return after_complete_seeds(runs);
  SeedEquations equations(runs.seeds);
  const auto rows = by_row(runs);
  for (const auto& row : rows) equations.add(row, 1);
  Squared result;
  result.all = equations.left();
  for (const auto& row : rows) {
    SeedEquations rest = equations;
    rest.add(row, -1);
    result.without.push_back(rest.left());
  }
  return result;
}

}  // namespace

Squares squares_within(std::span<const SeedValues* const> rows) { return without_seeds(runs_of(rows)).all; }

Squares squares_after_seeds(std::span<const SeedValues* const> rows) { return after_seeds(runs_of(rows)).all; }

std::vector<std::optional<SpreadRatio>> spread_ratios(std::span<const SeedValues* const> rows, bool seeds_as_blocks,
                                                      double negligible) {
  const Runs runs = runs_of(rows);
  const Squared squared = seeds_as_blocks ? after_seeds(runs) : without_seeds(runs);
  std::vector<std::optional<SpreadRatio>> ratios;
  std::size_t next = 0;
  for (const SeedValues* row : rows) {
    ratios.emplace_back();
    if (row->empty()) continue;
    const Squares& rest = squared.without[next++];
    SpreadRatio ratio{.ratio = 1, .own_freedom = squared.all.freedom - rest.freedom, .other_freedom = rest.freedom};
    if (!(ratio.own_freedom > 0 && rest.freedom > 0 && std::sqrt(rest.mean()) > negligible)) continue;
    const double own = std::max(squared.all.sum - rest.sum, 0.0) / ratio.own_freedom;
    ratio.ratio = std::sqrt(own / rest.mean());
    ratios.back() = ratio;
  }
  return ratios;
}

double spread_ratio_by_chance(double own_freedom, double other_freedom, double probability) {
  static std::mutex mutex;
  static std::map<std::tuple<double, double, double>, double> known;
  const auto key = std::make_tuple(own_freedom, other_freedom, probability);
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  // P(F > x) = I_y(d2 / 2, d1 / 2) with y = d2 / (d2 + d1 x).
  const double y = inverse_regularised_beta(probability, other_freedom / 2, own_freedom / 2);
  return known.emplace(key, std::sqrt(other_freedom * (1 / y - 1) / own_freedom)).first->second;
}

}  // namespace normlab
