#include "experiments/lab/statistics/interval_simulation.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "experiments/lab/statistics/many_to_one.h"

namespace normlab {
namespace {

/// An effect of each seed would cancel in all differences, so there is none.
Strip drawn(const SimulatedStrip& of, std::size_t sweep) {
  const StreamKey key = stream_key(sweep, "intervals", "simulation");
  std::uint64_t position = 0;
  const auto row = [&](bool noisy) {
    StripRow out;
    for (std::uint64_t seed = 0; seed < of.seeds; ++seed)
      out.values.emplace_hint(out.values.end(), seed, (noisy ? of.times : 1) * normal(key, position++));
    return out;
  };
  Strip strip{row(of.noisy_baseline), {}};
  for (std::size_t r = 0; r < of.rows; ++r) strip.rows.push_back(row(r < of.noisy_rows));
  return strip;
}

}  // namespace

SimulatedIntervals simulated_intervals(const SimulatedStrip& strip, std::size_t sweeps) {
  SimulatedIntervals result;
  const double baseline = strip.noisy_baseline ? strip.times : 1;
  const double error = std::sqrt((1 + baseline * baseline) / double(strip.seeds));
  for (std::size_t sweep = 0; sweep < sweeps; ++sweep) {
    const ManyToOne gains = many_to_one(drawn(strip, sweep));
    bool all = true;
    for (std::size_t r = 0; r < strip.rows; ++r) {
      all = all && std::abs(*gains.rows[r].gain) <= *gains.rows[r].half_width;
      if (r >= strip.noisy_rows)
        result.width += *gains.rows[r].half_width / error / double(strip.rows - strip.noisy_rows);
    }
    result.coverage += all;
  }
  result.coverage /= double(sweeps);
  result.width /= double(sweeps);
  return result;
}

double simulated_dunnett_width(const SimulatedStrip& strip, std::size_t sweeps) {
  std::vector<double> largest;
  double spread = 0;
  for (std::size_t sweep = 0; sweep < sweeps; ++sweep) {
    const ManyToOne gains = many_to_one(drawn(strip, sweep));
    const double sd = std::sqrt(gains.left_square / gains.left_freedom);
    double most = 0;
    for (const Comparison& row : gains.rows) most = std::max(most, std::abs(*row.gain));
    largest.push_back(most / (sd * std::sqrt(2 / double(strip.seeds))));
    spread += sd / double(sweeps);
  }
  const auto critical = largest.begin() + std::ptrdiff_t(0.95 * double(sweeps));
  std::nth_element(largest.begin(), critical, largest.end());
  return *critical * spread;
}

}  // namespace normlab
