#include "experiments/lab/statistics/stein.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/random.h"

using namespace normlab;

namespace {

/// A sweep of a baseline and three rows, with true gains, an effect of the seed on all rows, and noise in each run.
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

/// The strips of two sweeps after their first stage.
struct TwoSweeps {
  SimulatedSweep one{1}, two{2};
  Strip strips[2] = {one.strip(5), two.strip(5)};
  std::set<std::uint64_t> first{0, 1, 2, 3, 4};
  ManyToOneOptions options() const {
    ManyToOneOptions options;
    options.first_stage = first;
    return options;
  }
};

/// A baseline and a row of one seed.
Strip one_seed() {
  Strip alone;
  alone.baseline.values = {{0, 1.0}};
  alone.rows.resize(1);
  alone.rows[0].values = {{0, 2.0}};
  return alone;
}

}  // namespace

TEST_CASE("stein: intervals cover the gains of 94% of 20,000 simulated sweeps") {
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
    ManyToOneOptions options{.first_stage = first};
    const ManyToOne table = many_to_one(whole, options);
    covered += covers(table);
    for (const Comparison& row : table.rows) too_wide = std::max(too_wide, *row.half_width - kHalfWidth);
    // The wrong rule takes the noise of all runs after the second stage, as if their number had been fixed before.
    options.first_stage.clear();
    covered_by_wrong_rule += covers(many_to_one(whole, options));
  }
  MESSAGE("covered ", 100.0 * covered / kSweeps, "% with ", seeds / kSweeps, " seeds on average, at most ", widest_seen,
          "; by the wrong rule ", 100.0 * covered_by_wrong_rule / kSweeps, "%");
  // As with one stage of five seeds and three rows (`normlab bench intervals --rows 3`).
  CHECK(100.0 * covered / kSweeps > 93.5);
  CHECK(100.0 * covered / kSweeps < 95.5);
  CHECK(too_wide < 1e-9);
  CHECK(covered_by_wrong_rule < covered - kSweeps / 200);
}

TEST_CASE("stein: a wide interval needs no more seeds than the first stage") {
  const TwoSweeps sweeps;
  const SweepSeeds wide = stein_seeds(sweeps.strips, sweeps.first, 5, 20);
  CHECK(wide.wanted == 5);
  CHECK(wide.n == 5);
  CHECK(wide.reached);
}

TEST_CASE("stein: the number of seeds stops at the limit") {
  const TwoSweeps sweeps;
  const SweepSeeds narrow = stein_seeds(sweeps.strips, sweeps.first, 0.05, 20);
  CHECK(narrow.wanted > 20);
  CHECK(narrow.n == 20);
  CHECK(!narrow.reached);
  CHECK(narrow.half_width > 0.05);
}

TEST_CASE("stein: the widest strip sets the number of seeds") {
  const TwoSweeps sweeps;
  const SweepSeeds each[] = {stein_seeds({sweeps.strips, 1}, sweeps.first, 0.05, 100'000),
                             stein_seeds({sweeps.strips + 1, 1}, sweeps.first, 0.05, 100'000)};
  CHECK(stein_seeds(sweeps.strips, sweeps.first, 0.05, 100'000).wanted == std::max(each[0].wanted, each[1].wanted));
}

TEST_CASE("stein: the table shows the predicted half width, also after a divergence") {
  const TwoSweeps sweeps;
  for (const bool diverged : {false, true}) {
    Strip stage[] = {sweeps.one.strip(5)};
    stage[0].rows[1].apart = diverged;
    const SweepSeeds fixed = stein_seeds(stage, sweeps.first, 0.6, 1000);
    Strip whole = sweeps.one.strip(fixed.n);
    whole.rows[1].apart = diverged;
    const ManyToOne table = many_to_one(whole, sweeps.options());
    CHECK(table.rows[1].freedom == (diverged ? doctest::Approx(4) : doctest::Approx(table.rows[0].freedom)));
    double widest = 0;
    for (const Comparison& row : table.rows) widest = std::max(widest, *row.half_width);
    CHECK(widest == doctest::Approx(fixed.half_width).epsilon(1e-12));
    CHECK(widest <= 0.6);
  }
}

TEST_CASE("stein: without an estimate of the noise all allowed seeds run") {
  const Strip alone = one_seed();
  const SweepSeeds unknown = stein_seeds({&alone, 1}, {0, 1}, 0.3, 20);
  CHECK(unknown.wanted == 0);
  CHECK(unknown.n == 20);
  CHECK(!unknown.reached);
}

TEST_CASE("stein: a first stage needs two seeds and no more than the limit") {
  const Strip alone = one_seed();
  CHECK_THROWS_WITH_AS(stein_seeds({&alone, 1}, {0}, 0.3, 20),
                       doctest::Contains("a first stage of 1 seeds and at most 20; expected 2 or more"), InputError);
  CHECK_THROWS_WITH_AS(stein_seeds({&alone, 1}, {0, 1, 2}, 1, 2),
                       doctest::Contains("a first stage of 3 seeds and at most 2; expected 2 or more"), InputError);
}

TEST_CASE("stein: a first stage without noise gives no interval, unless all values are equal") {
  CHECK(!staged_interval({{0, 11}, {1, 11}, {2, 16}, {3, 12}, {4, 11}}, {0, 1})->half_width);
  CHECK(*staged_interval({{0, 11}, {1, 11}, {2, 11}}, {0, 1})->half_width == 0);
  CHECK(*staged_interval({{0, 11}, {1, 12}, {2, 11}}, {0, 1})->half_width > 0);
  CHECK(!staged_interval({}, {0, 1}));
}

TEST_CASE("stein: a half width of 0 is refused") {
  const Strip alone = one_seed();
  CHECK_THROWS_WITH_AS(stein_seeds({&alone, 1}, {0, 1}, 0, 20),
                       "half width of two-stage seeds: 0; expected more than 0", InputError);
}
