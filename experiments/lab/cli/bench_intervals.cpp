#include <fmt/core.h>

#include "core/error.h"
#include "experiments/lab/base/parallel.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/cli/bench.h"
#include "experiments/lab/statistics/interval_simulation.h"

namespace normlab {
namespace {

struct BenchIntervals : BenchOptions {
  int rows = 11, sweeps = 10'000;
  std::vector<std::int64_t> seeds{3, 4, 5, 10};

  struct Cell {
    std::string words;
    SimulatedStrip strip;
  };
  /// The first has equal spreads.
  std::vector<Cell> cells() const {
    std::vector<Cell> cells{{"none", {}}};
    for (const std::size_t noisy : {1, 3, 6})
      for (const double times : {2, 3, 10})
        if (noisy < std::size_t(rows))
          cells.push_back({fmt::format("{} row{}, {} times", noisy, noisy == 1 ? "" : "s", times),
                           {.noisy_rows = noisy, .times = times}});
    for (const double times : {2, 3, 10})
      cells.push_back({fmt::format("baseline, {} times", times), {.noisy_baseline = true, .times = times}});
    return cells;
  }

  int operator()() const {
    for (const std::int64_t n : seeds)
      if (n < 2 || n > 1000) throw InputError(fmt::format("--seeds {}: expected numbers from 2 to 1000", n));
    const std::vector<Cell> all = cells();
    std::vector<SimulatedIntervals> found(all.size() * seeds.size());
    std::vector<double> dunnett(seeds.size());
    // The item after the cells is Dunnett's procedure.
    parallel_items(std::int64_t((all.size() + 1) * seeds.size()), 1, threads, [&](std::size_t, std::int64_t item) {
      const std::size_t cell = std::size_t(item) / seeds.size(), s = std::size_t(item) % seeds.size();
      SimulatedStrip strip = cell < all.size() ? all[cell].strip : SimulatedStrip{};
      strip.rows = std::size_t(rows), strip.seeds = std::size_t(seeds[s]);
      if (cell < all.size())
        found[std::size_t(item)] = simulated_intervals(strip, std::size_t(sweeps));
      else
        dunnett[s] = simulated_dunnett_width(strip, std::size_t(sweeps));
    });
    Json document{{"rows", rows}, {"sweeps", sweeps}, {"cells", Json::array()}};
    std::string text = fmt::format("{:18}", "noisier");
    for (const std::int64_t n : seeds) text += fmt::format("  {:>11}", fmt::format("{} seeds", n));
    for (std::size_t c = 0; c < all.size(); ++c) {
      text += fmt::format("\n{:18}", all[c].words);
      for (std::size_t s = 0; s < seeds.size(); ++s) {
        const SimulatedIntervals& one = found[c * seeds.size() + s];
        const double width = one.width / dunnett[s];
        text += fmt::format("  {:5.1f}% {:4.2f}", 100 * one.coverage, width);
        document["cells"].push_back({{"noisier", all[c].words},
                                     {"seeds", seeds[s]},
                                     {"coverage", one.coverage},
                                     {"width_over_dunnett", rounded(width, 4)}});
      }
    }
    print_bytes((json() ? document.dump(1) : text) + "\n");
    return 0;
  }
};

}  // namespace

void add_bench_intervals(Command& bench) {
  auto [command, intervals] = bench.add_command<BenchIntervals>(
      "intervals", "simulate how often the intervals of a table's gains hold together, and how wide they are");
  command.add_number("--rows", intervals.rows, "rows that are compared with the baseline", 1, 1000).show_default();
  command.add_option("--seeds", intervals.seeds, "numbers of seeds").show_default();
  command.add_number("--sweeps", intervals.sweeps, "sweeps to simulate for each number", 100, 1'000'000).show_default();
  intervals.add_threads(command);
  intervals.add_format(command);
  command.footer(
      "Some rows, or the baseline, are noisier than the others. The percentage says in how many sweeps all intervals "
      "hold. The number after it is the mean width of the other rows' intervals over that of Dunnett's procedure "
      "without noisy rows, each relative to the true error of the gains.");
  command.examples({"normlab bench intervals --rows 3 --seeds 3 5", "normlab bench intervals --format json"});
}

}  // namespace normlab
