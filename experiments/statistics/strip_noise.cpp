#include "experiments/statistics/strip_noise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "experiments/statistics/solve.h"
#include "experiments/statistics/special.h"

namespace normlab {
namespace {

double mean_of(const SeedValues& row) {
  double sum = 0;
  for (const auto& [seed, value] : row) sum += value;
  return sum / double(row.size());
}

/// A run, with the row's mean taken off.
struct Run {
  std::size_t row, seed;
  double value;
};

struct Runs {
  std::vector<Run> all;
  std::vector<std::size_t> of_row, of_seed;  // numbers of runs
};

Runs runs_of(std::span<const SeedValues* const> rows) {
  std::map<std::uint64_t, std::size_t> seeds;
  for (const SeedValues* row : rows)
    for (const auto& [seed, value] : *row) seeds.emplace(seed, 0);
  std::size_t next = 0;
  for (auto& [seed, index] : seeds) index = next++;
  Runs runs;
  runs.of_seed.resize(seeds.size());
  for (const SeedValues* row : rows) {
    if (row->empty()) continue;
    const double center = mean_of(*row);
    for (const auto& [seed, value] : *row) {
      runs.all.push_back({runs.of_row.size(), seeds[seed], value - center});
      ++runs.of_seed[seeds[seed]];
    }
    runs.of_row.push_back(row->size());
  }
  return runs;
}

/// Solves matrix x = right in place for a symmetric positive semidefinite matrix (n x n); directions without any weight
/// get 0. Returns the rank.
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

/// Effects of the seeds, the rows' taken out. Returns their rank.
std::size_t seed_effects(const Runs& runs, std::vector<double>& effects) {
  const std::size_t rows = runs.of_row.size(), seeds = runs.of_seed.size();
  effects.assign(seeds, 0);
  for (const Run& run : runs.all) effects[run.seed] += run.value;
  if (runs.all.size() == rows * seeds) {  // nothing is missing
    for (double& effect : effects) effect /= double(rows);
    return seeds - 1;
  }
  std::vector<double> matrix(seeds * seeds);
  for (std::size_t s = 0; s < seeds; ++s) matrix[s * seeds + s] = double(runs.of_seed[s]);
  for (std::size_t begin = 0; begin < runs.all.size();) {
    const std::size_t count = runs.of_row[runs.all[begin].row];
    for (std::size_t i = begin; i < begin + count; ++i)
      for (std::size_t j = begin; j < begin + count; ++j)
        matrix[runs.all[i].seed * seeds + runs.all[j].seed] -= 1 / double(count);
    begin += count;
  }
  return solve_semidefinite(matrix, effects);
}

double chance_below(const std::map<double, std::size_t>& freedoms, double ratio) {
  double sum = 0;
  for (const auto& [smallest, same] : freedoms) {
    const SpreadNodes nodes = spread_nodes(smallest, 0.1);
    for (std::size_t i = 0; i < nodes.s.size(); ++i) {
      const double square = nodes.s[i] * nodes.s[i];
      double others = nodes.weight[i] * double(same);
      for (const auto& [freedom, count] : freedoms) {
        const double between =
            chi_square_cdf(freedom * square * ratio * ratio, freedom) - chi_square_cdf(freedom * square, freedom);
        others *= std::pow(between, double(count - (freedom == smallest ? 1 : 0)));
      }
      sum += others;
    }
  }
  return sum;
}

}  // namespace

Squares squares_within(std::span<const SeedValues* const> rows) {
  const Runs runs = runs_of(rows);
  Squares squares;
  for (const Run& run : runs.all) squares.sum += run.value * run.value;
  squares.freedom = double(runs.all.size()) - double(runs.of_row.size());
  return squares;
}

Squares squares_after_seeds(std::span<const SeedValues* const> rows) {
  const Runs runs = runs_of(rows);
  Squares squares;
  if (runs.all.empty()) return squares;
  std::vector<double> effects;
  const std::size_t rank = seed_effects(runs, effects);
  std::vector<double> shift(runs.of_row.size());  // mean of the seeds' effects over the runs of a row
  for (const Run& run : runs.all) shift[run.row] += effects[run.seed] / double(runs.of_row[run.row]);
  for (const Run& run : runs.all) {
    const double left = run.value - effects[run.seed] + shift[run.row];
    squares.sum += left * left;
  }
  squares.freedom = double(runs.all.size()) - double(runs.of_row.size()) - double(rank);
  return squares;
}

double spread_ratio_by_chance(std::vector<double> freedoms, double level) {
  if (freedoms.size() < 2) return 1;
  std::map<double, std::size_t> counts;
  for (const double freedom : freedoms) ++counts[freedom];
  static std::mutex mutex;
  static std::map<std::tuple<std::map<double, std::size_t>, double>, double> known;
  const auto key = std::make_tuple(counts, level);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const auto excess = [&](double log_ratio) { return chance_below(counts, std::exp(log_ratio)) - level; };
  double high = 1;
  while (excess(high) < 0) high *= 2;
  const double ratio = std::exp(solve(excess, 0.0, high, 1e-9));
  const std::lock_guard lock(mutex);
  return known.emplace(key, ratio).first->second;
}

}  // namespace normlab
