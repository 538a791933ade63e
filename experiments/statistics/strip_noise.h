// How noisy the runs of a strip are, and whether its rows are equally so.
#pragma once

#include <cstddef>
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

/// The ratio of largest to smallest sd that independent sds of equal true value, each on its degrees > 0, exceed with
/// probability 1 - level: Hartley, Biometrika 37 (1950), as a ratio of sds and for unequal degrees. By quadrature,
/// error below 1e-6; kept by its arguments. 1 for fewer than two.
double spread_ratio_by_chance(std::vector<double> freedoms, double level);

}  // namespace normlab
