// How noisy the runs of a strip are, and whether its rows are equally so.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "experiments/statistics/student.h"

namespace normlab {

/// A sum of squares on its degrees of freedom.
struct Squares {
  double sum = 0, freedom = 0;
  double mean() const { return freedom > 0 ? sum / freedom : 0; }
};

/// Around the mean of each row.
Squares squares_within(std::span<const SeedValues* const> rows);

/// Around the least squares fit of an effect of each row and one of each seed; any runs may be missing. Degrees: runs
/// less rows less seeds plus the number of parts that share neither row nor seed.
Squares squares_after_seeds(std::span<const SeedValues* const> rows);

/// How much noisier one row is than the others together: the root of the F statistic (sum of squares that the row adds
/// to that of the others, over its degrees) / (mean square of the others). With equal spreads it has exactly an F
/// distribution on these degrees, whatever is missing.
struct SpreadRatio {
  double ratio = 1, own_freedom = 0, other_freedom = 0;
};

/// Of each row with an effect of each row and, if `seeds_as_blocks`, of each seed taken out. None where the row or the
/// others have no degrees, or the others no spread (up to `negligible`, in the unit of the values).
std::vector<std::optional<SpreadRatio>> spread_ratios(std::span<const SeedValues* const> rows, bool seeds_as_blocks,
                                                      double negligible);

/// The ratio that equal spreads exceed with this probability. Kept by its arguments.
double spread_ratio_by_chance(double own_freedom, double other_freedom, double probability);

}  // namespace normlab
