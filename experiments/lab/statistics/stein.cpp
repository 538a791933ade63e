#include "experiments/lab/statistics/stein.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace normlab {
namespace {

constexpr double kMostValues = 1e15;

/// The widest half width of a row in the strip if it had one seed; with n seeds it is divided by sqrt(n). 0 if the
/// noise cannot be estimated.
double half_width_of_one(const Strip& strip, const std::set<std::uint64_t>& first_stage) {
  const ManyToOne first = many_to_one(strip, {.first_stage = first_stage});
  double widest = 0;
  for (const Comparison& row : first.rows)
    if (row.standard_error)
      widest =
          std::max(widest, student_t_two_sided_quantile((1 - first.level) / double(strip.rows.size()), row.freedom) *
                               *row.standard_error * std::sqrt(double(row.pairs)));
  return widest;
}

}  // namespace

std::optional<Interval> staged_interval(const SeedValues& values, const std::set<std::uint64_t>& first_stage,
                                        double level) {
  std::vector<double> all, first;
  for (const bool stage : {true, false})
    for (const auto& [seed, value] : values) {
      if (first_stage.contains(seed) != stage) continue;
      all.push_back(value);
      if (stage) first.push_back(value);
    }
  std::optional<Interval> interval = mean_interval(all, level);
  if (first.size() < 2) return interval;
  const double sd = sample_sd(first);
  interval->half_width.reset();
  if (sd > 0 || sample_sd(all) == 0)
    interval->half_width =
        student_t_two_sided_quantile(1 - level, double(first.size() - 1)) * sd / std::sqrt(double(all.size()));
  return interval;
}

SweepSeeds stein_seeds(std::span<const Strip> strips, const std::set<std::uint64_t>& first, double half_width,
                       std::size_t max) {
  if (!(half_width > 0))
    throw InputError(concat("half width of two-stage seeds: ", half_width, "; expected more than 0"));
  if (first.size() < 2 || max < first.size())
    throw InputError(concat("two-stage seeds: a first stage of ", first.size(), " seeds and at most ", max,
                            "; expected 2 or more, and no fewer in all"));
  double widest = 0;
  for (const Strip& strip : strips) widest = std::max(widest, half_width_of_one(strip, first));
  SweepSeeds seeds{.first = first.size(), .wanted = 0, .n = max, .reached = false, .half_width = 0};
  if (!(widest > 0)) return seeds;
  const double needed =
      std::ceil(std::pow(widest / half_width, 2));  // the smallest n with widest / sqrt(n) <= half_width
  seeds.wanted = std::max(first.size(), std::size_t(std::min(needed, kMostValues)));
  seeds.n = std::min(seeds.wanted, max);
  seeds.reached = seeds.wanted <= max;
  seeds.half_width = widest / std::sqrt(double(seeds.n));
  return seeds;
}

}  // namespace normlab
