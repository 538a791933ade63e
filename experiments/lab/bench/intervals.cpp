#include <fmt/core.h>
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "experiments/lab/base/parallel.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/statistics/many_to_one.h"

namespace normlab {
namespace {

struct Noise {
  std::string words;
  SimulatedStrip strip;
};
/// The first has equal spreads.
std::vector<Noise> cells_of(int rows) {
  std::vector<Noise> cells{{"none", {}}};
  for (const std::size_t noisy : {1, 3, 6})
    for (const double times : {2, 3, 10})
      if (noisy < std::size_t(rows))
        cells.push_back(
            {fmt::format("{}, {} times", plural(noisy, "row"), times), {.noisy_rows = noisy, .times = times}});
  for (const double times : {2, 3, 10})
    cells.push_back({fmt::format("baseline, {} times", times), {.noisy_baseline = true, .times = times}});
  return cells;
}

/// An effect of each seed would cancel in all differences, so there is none.
Strip drawn(const SimulatedStrip& simulated, std::size_t sweep) {
  const StreamKey key = stream_key(sweep, "intervals", "simulation");
  std::uint64_t position = 0;
  const auto row = [&](bool noisy) {
    StripRow out;
    for (std::uint64_t seed = 0; seed < simulated.seeds; ++seed)
      out.values.emplace_hint(out.values.end(), seed, (noisy ? simulated.times : 1) * normal(key, position++));
    return out;
  };
  Strip strip{row(simulated.noisy_baseline), {}};
  for (std::size_t r = 0; r < simulated.rows; ++r) strip.rows.push_back(row(r < simulated.noisy_rows));
  return strip;
}

}  // namespace

Measured bench_intervals(const BenchOptions& o) {
  for (const std::int64_t n : o.seeds)
    if (n < 2 || n > 1000) throw InputError(fmt::format("--seeds {}: expected numbers from 2 to 1000", n));
  const std::vector<Noise> all = cells_of(o.rows);
  const std::size_t columns = o.seeds.size(), sweeps = std::size_t(o.sweeps);
  std::vector<SimulatedIntervals> found(all.size() * columns);
  std::vector<double> equal(columns);
  // The item after the cells is the procedure for equal spreads.
  parallel_items(std::int64_t((all.size() + 1) * columns), 1, o.threads, [&](std::size_t, std::int64_t item) {
    const std::size_t cell = std::size_t(item) / columns, s = std::size_t(item) % columns;
    SimulatedStrip strip = cell < all.size() ? all[cell].strip : SimulatedStrip{};
    strip.rows = std::size_t(o.rows), strip.seeds = std::size_t(o.seeds[s]), strip.pairs = o.pairs;
    if (cell < all.size())
      found[std::size_t(item)] = simulated_intervals(strip, sweeps);
    else
      equal[s] = simulated_equal_width(strip, sweeps);
  });
  Json cells = Json::array(), rows = Json::array();
  for (std::size_t c = 0; c < all.size(); ++c) {
    Json& row = rows.emplace_back(Json{{"noisier", all[c].words}});
    for (std::size_t s = 0; s < columns; ++s) {
      const SimulatedIntervals& one = found[c * columns + s];
      const double width = rounded(one.width / equal[s], 4);
      cells.push_back({{"noisier", all[c].words},
                       {"seeds", o.seeds[s]},
                       {"coverage", one.coverage},
                       {o.pairs ? "width_over_tukey" : "width_over_dunnett", width}});
      row[fmt::format("{} seeds", o.seeds[s])] = fmt::format("{:5.1f}% {:4.2f}", 100 * one.coverage, width);
    }
  }
  return {{{"rows", o.rows}, {"sweeps", o.sweeps}, {"cells", std::move(cells)}}, 0, {{"cells", std::move(rows)}}};
}

SimulatedIntervals simulated_intervals(const SimulatedStrip& strip, std::size_t sweeps) {
  SimulatedIntervals result;
  const double baseline = strip.noisy_baseline ? strip.times : 1;
  const double error = std::sqrt((1 + baseline * baseline) / double(strip.seeds));
  const auto noisy = [&](std::size_t r) { return r == 0 ? strip.noisy_baseline : r <= strip.noisy_rows; };
  for (std::size_t sweep = 0; sweep < sweeps && strip.pairs; ++sweep) {
    const Strip values = drawn(strip, sweep);
    std::vector<StripRow> rows{values.baseline};
    rows.insert(rows.end(), values.rows.begin(), values.rows.end());
    bool all = true;
    double width = 0, quiet = 0;
    for (const RowPair& pair : all_pairs(rows).pairs) {
      all = all && std::abs(*pair.difference.gain) <= *pair.difference.half_width;
      if (!noisy(pair.a) && !noisy(pair.b)) width += *pair.difference.half_width, ++quiet;
    }
    result.coverage += all;
    if (quiet > 0) result.width += width / quiet / std::sqrt(2 / double(strip.seeds));
  }
  for (std::size_t sweep = 0; sweep < sweeps && !strip.pairs; ++sweep) {
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

double simulated_equal_width(const SimulatedStrip& strip, std::size_t sweeps) {
  std::vector<double> largest;
  double spread = 0;
  for (std::size_t sweep = 0; sweep < sweeps; ++sweep) {
    const ManyToOne gains = many_to_one(drawn(strip, sweep));
    const double sd = std::sqrt(gains.left_square / gains.left_freedom);
    double highest = 0, lowest = 0;
    for (const Comparison& row : gains.rows)
      highest = std::max(highest, *row.gain), lowest = std::min(lowest, *row.gain);
    const double most = strip.pairs ? highest - lowest : std::max(highest, -lowest);
    largest.push_back(most / (sd * std::sqrt(2 / double(strip.seeds))));
    spread += sd / double(sweeps);
  }
  const auto critical = largest.begin() + std::ptrdiff_t(0.95 * double(sweeps));
  std::nth_element(largest.begin(), critical, largest.end());
  return *critical * spread;
}

}  // namespace normlab
