// How noisy the runs of a strip are, and whether its rows are equally noisy.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "experiments/statistics/student.h"

namespace normlab {

/// A sum of squares with its degrees of freedom.
struct Squares {
  double sum = 0, freedom = 0;
  double mean() const { return freedom > 0 ? sum / freedom : 0; }
};

/// Squares around the mean of each row.
Squares squares_within(std::span<const SeedValues* const> rows);

/// Squares around the least squares fit of an effect of each row and each seed; any runs may be missing. Degrees of
/// freedom: runs minus rows minus seeds plus the number of components that share neither row nor seed.
Squares squares_after_seeds(std::span<const SeedValues* const> rows);

/// How much noisier one row is than the others together: the square root of the F statistic (sum of squares that the
/// row adds to that of the others, over its degrees) / (mean square of the others). With equal spreads it has exactly
/// an F distribution with these degrees, whatever is missing.
struct SpreadRatio {
  double ratio = 1, own_freedom = 0, other_freedom = 0;
};

/// The ratio of each row, after removing an effect of each row and, if `seeds_as_blocks`, of each seed. None if the row
/// or the others have no degrees of freedom, or the others no spread (up to `negligible`, in the unit of the values).
std::vector<std::optional<SpreadRatio>> spread_ratios(std::span<const SeedValues* const> rows, bool seeds_as_blocks,
                                                      double negligible);

/// The ratio that equal spreads exceed with this probability. Results are cached.
double spread_ratio_by_chance(double own_freedom, double other_freedom, double probability);

}  // namespace normlab
