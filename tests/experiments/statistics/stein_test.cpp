#include "experiments/statistics/stein.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/random.h"

using namespace normlab;

namespace {

/// A sweep of a baseline and three rows: true gains, an effect of the seed on all, noise of each run.
class SimulatedSweep {
 public:
  explicit SimulatedSweep(std::uint64_t number) : key_(stream_key(number, "stein", "sweep")) {}
  static constexpr double kGains[] = {0.0, 0.4, -1.0};

  /// All rows on seeds 0 to n - 1.
  Strip strip(std::size_t n) const {
    Strip strip;
    strip.rows.resize(std::size(kGains));
    for (std::uint64_t seed = 0; seed < n; ++seed) {
      const double common = 76 + 0.8 * normal(key_, 4 * seed);
      strip.baseline.values.emplace_hint(strip.baseline.values.end(), seed, common + noise(seed, 0));
      for (std::size_t i = 0; i < std::size(kGains); ++i)
        strip.rows[i].values.emplace_hint(strip.rows[i].values.end(), seed, common + kGains[i] + noise(seed, i + 1));
    }
    return strip;
  }

 private:
  double noise(std::uint64_t seed, std::uint64_t row) const { return 0.3 * normal(key_, 1'000'000 + 4 * seed + row); }
  StreamKey key_;
};

bool covers(const ManyToOne& table) {
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    if (!(*table.rows[i].low <= SimulatedSweep::kGains[i] && SimulatedSweep::kGains[i] <= *table.rows[i].high))
      return false;
  return true;
}

}  // namespace

TEST_CASE("stein: 20,000 simulated sweeps are covered as often as the table says") {
  constexpr int kSweeps = 20'000;
  constexpr double kHalfWidth = 0.4;
  const std::set<std::uint64_t> first{0, 1, 2, 3, 4};
  int covered = 0, covered_by_wrong_rule = 0, widest_seen = 0;
  double seeds = 0, too_wide = 0;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    const SimulatedSweep simulated{std::uint64_t(sweep)};
    const Strip stage[] = {simulated.strip(first.size())};
    const SweepSeeds fixed = stein_seeds(stage, first, kHalfWidth, 1000);
    REQUIRE(fixed.reached);
    seeds += double(fixed.n);
    widest_seen = std::max(widest_seen, int(fixed.n));
    const Strip whole = simulated.strip(fixed.n);
    ManyToOneOptions options{.first_stage = first, .p_values = false};
    const ManyToOne table = many_to_one(whole, options);
    covered += covers(table);
    for (const Comparison& row : table.rows) too_wide = std::max(too_wide, *row.half_width - kHalfWidth);
    // The wrong rule: after the second stage, the noise of all runs as if their number had been fixed before.
    options.first_stage.clear();
    covered_by_wrong_rule += covers(many_to_one(whole, options));
  }
  MESSAGE("covered ", 100.0 * covered / kSweeps, "% with ", seeds / kSweeps, " seeds on average, at most ", widest_seen,
          "; by the wrong rule ", 100.0 * covered_by_wrong_rule / kSweeps, "%");
  CHECK(100.0 * covered / kSweeps > 94.5);
  CHECK(100.0 * covered / kSweeps < 95.5);
  CHECK(too_wide < 1e-9);
  CHECK(100.0 * covered_by_wrong_rule / kSweeps < 94.5);
}
