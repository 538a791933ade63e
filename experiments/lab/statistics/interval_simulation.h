// How often the intervals of many_to_one() hold where the rows of a strip are not equally noisy.
#pragma once

#include <cstddef>

namespace normlab {

/// A strip of rows without true gains and a baseline, seeds as blocks. Runs have the sd 1, those of the first
/// `noisy_rows` rows and of a noisy baseline the sd `times`.
struct SimulatedStrip {
  std::size_t rows = 11, seeds = 5;
  std::size_t noisy_rows = 0;
  bool noisy_baseline = false;
  double times = 1;
};

struct SimulatedIntervals {
  double coverage = 0;  // share of the sweeps in which all intervals of the strip hold
  double width = 0;     // mean half width of the rows that are not noisy, over the true standard errors of their gains
};

/// Over `sweeps` drawn from the normal distribution: the same numbers for the same arguments.
SimulatedIntervals simulated_intervals(const SimulatedStrip& strip, std::size_t sweeps);

/// The width of Dunnett's intervals (JASA 50, 1955), which assume equal spreads, where they cover 95% of these sweeps.
/// The strip has no noisy row.
double simulated_dunnett_width(const SimulatedStrip& strip, std::size_t sweeps);

}  // namespace normlab
