// Two-stage sample size: Stein, "A two-sample test for a linear hypothesis whose power is independent of the variance",
// Annals of Mathematical Statistics 16 (1945). The number of seeds is fixed once, from the noise of the first stage.
// The final interval keeps that noise and its degrees of freedom, so its coverage is exact whatever the noise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>

#include "experiments/lab/statistics/many_to_one.h"

namespace normlab {

/// The interval of the mean, by Student's t. With two seeds or more of a first stage the noise is theirs, and there is no
/// half width if they show none, but the values differ. None if there are no values.
std::optional<Interval> staged_interval(const SeedValues& values, const std::set<std::uint64_t>& first_stage,
                                        double level = 0.95);

/// The number of seeds of a sweep, fixed once.
struct SweepSeeds {
  std::size_t first = 0;   // seeds of the first stage
  std::size_t wanted = 0;  // needed for the half width, at least first; 0 if the noise cannot be estimated
  std::size_t n = 0;       // min(wanted, max); `max` if wanted is 0
  bool reached = false;    // wanted is not 0 and at most max
  double half_width = 0;   // expected half width of the widest interval with n seeds; 0 if wanted is 0
};

/// From the strips of the first stage, in which all rows ran `first` seeds (runs may be missing or diverged): the
/// smallest number of seeds, common to all rows and baselines, with which every interval of many_to_one() with
/// these seeds as first stage has at most this half width > 0. Missing runs make intervals wider.
SweepSeeds stein_seeds(std::span<const Strip> strips, const std::set<std::uint64_t>& first, double half_width,
                       std::size_t max);

}  // namespace normlab
