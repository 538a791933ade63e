#include "experiments/lab/statistics/stein.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace normlab {
namespace {

constexpr double kMostValues = 1e15;

/// The smallest n with half_width_of_one / sqrt(n) <= half_width.
std::size_t needed(double half_width_of_one, double half_width) {
  const double ratio = half_width_of_one / half_width;
  return std::size_t(std::min(std::ceil(ratio * ratio), kMostValues));
}

void require_width(double half_width) {
  if (!(half_width > 0))
    throw InputError(concat("half width of two-stage seeds: ", half_width, "; expected more than 0"));
}

/// The widest half width of a row in the strip if it had one seed; with n seeds it is divided by sqrt(n). 0 if the
/// noise cannot be estimated.
double half_width_of_one(const Strip& strip, const ManyToOneOptions& options) {
  const ManyToOne first = many_to_one(strip, options);
  double widest = 0;
  for (const Comparison& row : first.rows)
    if (row.standard_error)
      widest =
          std::max(widest, student_t_two_sided_quantile((1 - first.level) / double(strip.rows.size()), row.freedom) *
                               *row.standard_error * std::sqrt(double(row.pairs)));
  return widest;
}

}  // namespace

Interval stein_interval(std::span<const double> values, std::size_t first, double level) {
  if (first < 2 || values.size() < first)
    throw InputError(concat("two-stage interval: ", first, " of ", values.size(),
                            " values are the first stage; expected 2 or more"));
  Interval interval;
  interval.mean = mean(values);
  interval.n = values.size();
  interval.sd = sample_sd(values.first(first));
  if (interval.sd > 0 || sample_sd(values) == 0)
    interval.half_width =
        student_t_two_sided_quantile(1 - level, double(first - 1)) * interval.sd / std::sqrt(double(values.size()));
  return interval;
}

SweepSeeds stein_seeds(std::span<const Strip> strips, const std::set<std::uint64_t>& first, double half_width,
                       std::size_t max, const ManyToOneOptions& options) {
  require_width(half_width);
  if (first.size() < 2 || max < first.size())
    throw InputError(concat("two-stage seeds: a first stage of ", first.size(), " seeds and at most ", max,
                            "; expected 2 or more, and no fewer in all"));
  ManyToOneOptions first_stage = options;
  first_stage.first_stage = first;
  double widest = 0;
  for (const Strip& strip : strips) widest = std::max(widest, half_width_of_one(strip, first_stage));
  SweepSeeds seeds{.first = first.size(), .wanted = 0, .n = max, .reached = false, .half_width = 0};
  if (!(widest > 0)) return seeds;
  seeds.wanted = std::max(first.size(), needed(widest, half_width));
  seeds.n = std::min(seeds.wanted, max);
  seeds.reached = seeds.wanted <= max;
  seeds.half_width = widest / std::sqrt(double(seeds.n));
  return seeds;
}

}  // namespace normlab
