// Functions of many_to_one.h that concern the strip as a whole.
#include <algorithm>
#include <cmath>

#include "experiments/lab/statistics/expected_best.h"
#include "experiments/lab/statistics/many_to_one.h"
#include "experiments/lab/statistics/planning.h"

namespace normlab {
namespace {

/// The test of a typical row with a given number of seeds: its critical value, degrees of freedom and standard error.
struct RowTest {
  double freedom = 0, critical = 0, standard_error = 0;
};

std::optional<RowTest> row_test(const ManyToOne& strip, std::size_t seeds) {
  if (!(strip.sd > 0) || seeds < (strip.two_stage ? 1 : 2)) return std::nullopt;
  RowTest test;
  test.freedom = strip.two_stage ? strip.freedom : strip.borrowing * (double(seeds) - 1);
  test.critical = student_t_two_sided_quantile((1 - strip.level) / double(strip.compared), test.freedom);
  test.standard_error = strip.sd / std::sqrt(double(seeds));
  return test;
}

}  // namespace

std::optional<double> best_gain_by_chance(std::span<const ManyToOne> strips) {
  std::vector<std::vector<double>> groups;
  for (const ManyToOne& strip : strips) {
    if (strip.compared == 0) continue;
    groups.emplace_back();
    for (const Comparison& row : strip.rows)
      if (row.standard_error) groups.back().push_back(*row.standard_error);
  }
  if (groups.empty()) return std::nullopt;
  return expected_best(groups);
}

std::optional<DetectableGain> detectable_gain(const ManyToOne& strip, std::size_t seeds, double power) {
  const auto test = row_test(strip, seeds);
  if (!test) return std::nullopt;
  const double gain = test->standard_error * smallest_shift(test->freedom, test->critical, power);
  const SdRange range = sd_range(strip.freedom);
  return DetectableGain{.gain = gain, .low = gain * range.low, .high = gain * range.high};
}

std::optional<SeedsNeeded> seeds_needed(const ManyToOne& strip, double gain, double power, std::size_t most) {
  const std::size_t least = strip.two_stage ? 1 : 2;
  if (!row_test(strip, least) || !(gain > 0)) return std::nullopt;
  const auto needed = [&](double noise) {
    const auto shows = [&](std::size_t seeds) {
      const RowTest test = *row_test(strip, seeds);
      return t_test_power(gain / (noise * test.standard_error), test.freedom, test.critical) >= power;
    };
    std::size_t low = least, high = least;  // low - 1 seeds are too few; high suffice
    while (high <= most && !shows(high)) low = high + 1, high *= 2;
    high = std::min(high, most + 1);
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (middle > most || shows(middle))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  };
  const SdRange range = sd_range(strip.freedom);
  return SeedsNeeded{.seeds = needed(1), .low = needed(range.low), .high = needed(range.high)};
}

std::optional<double> common_draw_correlation(std::span<const ManyToOne> strips) {
  double within = 0, within_freedom = 0, left = 0, left_freedom = 0;
  for (const ManyToOne& strip : strips) {
    if (!(strip.left_freedom > 0)) continue;
    within += strip.within_square, within_freedom += strip.within_freedom;
    left += strip.left_square, left_freedom += strip.left_freedom;
  }
  if (!(left_freedom > 0) || !(within > 0)) return std::nullopt;
  return 1 - (left / left_freedom) / (within / within_freedom);
}

}  // namespace normlab
