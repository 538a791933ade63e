#include "experiments/statistics/many_to_one.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "experiments/statistics/planning.h"
#include "experiments/statistics/strip_noise.h"
#include "tests/experiments/statistics/known_tests.h"

using namespace normlab;

namespace {

/// rows[0] is the baseline; NAN: no run.
Strip strip_of(const std::vector<std::vector<double>>& rows) {
  Strip strip;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    StripRow& row = r == 0 ? strip.baseline : strip.rows.emplace_back();
    for (std::size_t s = 0; s < rows[r].size(); ++s)
      if (!std::isnan(rows[r][s])) row.values[s] = rows[r][s];
  }
  return strip;
}

/// Rows with a common effect of the seed; sds[r] is the noise of row r, the baseline first.
std::vector<std::vector<double>> drawn(std::uint64_t number, const std::vector<double>& sds, std::size_t seeds) {
  const StreamKey key = stream_key(number, "many-to-one-test", "values");
  std::vector<std::vector<double>> rows(sds.size(), std::vector<double>(seeds));
  std::uint64_t position = 0;
  for (std::size_t s = 0; s < seeds; ++s) {
    const double common = normal(key, position++);
    for (std::size_t r = 0; r < sds.size(); ++r) rows[r][s] = 70 + common + sds[r] * normal(key, position++);
  }
  return rows;
}

const std::vector<std::vector<double>> kStrip{{75.797, 75.219, 74.625},
                                              {76.958, 77.287, 75.916},
                                              {76.25, 76.022, 74.976},
                                              {75.894, 75.692, 75.149},
                                              {75.684, 75.311, 74.562}};

}  // namespace

TEST_CASE("many_to_one: one row gives the paired t test") {
  const ManyToOne strip = many_to_one(strip_of({{1, 2, 4, 3}, {1.5, 2.25, 5, 3.5}}));
  const auto paired = paired_difference({{0, 1}, {1, 2}, {2, 4}, {3, 3}}, {{0, 1.5}, {1, 2.25}, {2, 5}, {3, 3.5}});
  CHECK(*strip.rows[0].gain == paired->mean);
  CHECK(*strip.rows[0].half_width == doctest::Approx(*paired->half_width).epsilon(1e-10));
  CHECK(strip.rows[0].sd == doctest::Approx(paired->sd).epsilon(1e-12));
  CHECK(strip.freedom == 3);
}

TEST_CASE("many_to_one: interval, mark and p value agree") {
  for (const Procedure procedure : {Procedure::pooled, Procedure::holm})
    for (std::uint64_t number = 0; number < 40; ++number) {
      auto rows = drawn(number, {0.3, 0.3, 0.3, 0.3, 0.3, 0.3}, 4);
      for (std::size_t r = 1; r < rows.size(); ++r)
        for (double& value : rows[r]) value += 0.3 * double(r);
      ManyToOneOptions options;
      options.procedure = procedure;
      options.family_rows = number % 2 == 0 ? 0 : 20;
      const ManyToOne strip = many_to_one(strip_of(rows), options);
      for (const Comparison& row : strip.rows) {
        CAPTURE(number);
        CHECK(row.differs == (*row.low >= 0 || *row.high <= 0));
        CHECK(row.differs == (*row.p < 0.05));
        CHECK((row.cut ? *row.low == 0 || *row.high == 0 : *row.high - *row.gain == doctest::Approx(*row.half_width)));
        CHECK((procedure == Procedure::holm || !row.cut));
      }
    }
}

TEST_CASE("many_to_one: a family of two strips is right in 95% of cases") {
  const ManyToOne alone = many_to_one(strip_of(kStrip));
  ManyToOneOptions options;
  options.family_rows = 8;
  const ManyToOne two = many_to_one(strip_of(kStrip), options);
  CHECK(two.level == doctest::Approx(std::sqrt(0.95)).epsilon(1e-12));
  CHECK(two.critical > alone.critical);
  // Of two independent strips, both are right with 95%.
  CHECK(std::pow(joint_t_probability(two.noise, two.freedom, two.critical), 2) == doctest::Approx(0.95).epsilon(1e-9));
  // 1 - p multiplies too.
  CHECK(*two.rows[1].p == doctest::Approx(1 - std::pow(1 - *alone.rows[1].p, 2)).epsilon(1e-9));
}

TEST_CASE("many_to_one: a family smaller than its strip is refused") {
  ManyToOneOptions options;
  options.family_rows = 3;
  CHECK_THROWS_WITH_AS(many_to_one(strip_of(kStrip), options), "a family of 3 rows cannot hold the 4 rows of a strip",
                       InputError);
}

TEST_CASE("many_to_one: missing runs lower the pairs and widen the error of their row") {
  std::vector<std::vector<double>> rows = kStrip;
  rows[1][2] = rows[3][0] = NAN;
  const ManyToOne strip = many_to_one(strip_of(rows));
  CHECK(strip.procedure == Procedure::pooled);
  CHECK(strip.freedom == 13 - 5 - 2);
  CHECK(strip.rows[0].pairs == 2);
  CHECK(*strip.rows[0].gain == doctest::Approx(((76.958 - 75.797) + (77.287 - 75.219)) / 2).epsilon(1e-12));
  CHECK(*strip.rows[0].standard_error == doctest::Approx(strip.residual_sd).epsilon(1e-12));  // sqrt(1/2 + 1/2)
  CHECK(*strip.rows[1].standard_error == doctest::Approx(strip.residual_sd * std::sqrt(2.0 / 3)).epsilon(1e-12));
  CHECK(strip.critical > 2.9);
}

TEST_CASE("many_to_one: a row without a pair is not compared") {
  std::vector<std::vector<double>> rows = kStrip;
  rows[2] = {NAN, NAN, NAN};
  const ManyToOne holes = many_to_one(strip_of(rows));
  CHECK(holes.compared == 3);
  CHECK(!holes.rows[1].gain);
  CHECK(!holes.rows[1].low);
  CHECK(!holes.rows[1].differs);
}

TEST_CASE("many_to_one: pooled noise gives a row of one pair an interval") {
  std::vector<std::vector<double>> rows = kStrip;
  rows[2] = {NAN, NAN, NAN};
  rows[4] = {75, NAN, NAN};
  const ManyToOne holes = many_to_one(strip_of(rows));
  CHECK(holes.compared == 3);
  CHECK(holes.rows[3].pairs == 1);
  CHECK(*holes.rows[3].half_width == doctest::Approx(holes.critical * *holes.rows[3].standard_error).epsilon(1e-12));
}

TEST_CASE("many_to_one: one seed gives gains without their noise") {
  const ManyToOne single = many_to_one(strip_of({{75}, {76}, {77}}));
  CHECK(*single.rows[1].gain == 2);
  CHECK(!single.rows[1].half_width);
  CHECK(single.freedom == 0);
  CHECK(!best_gain_by_chance({&single, 1}));
  CHECK(!detectable_gain(single, 5));
  CHECK(!seeds_needed(single, 1));
  CHECK(!common_draw_correlation({&single, 1}));
}

TEST_CASE("many_to_one: equal differences give no certainty") {
  const ManyToOne flat = many_to_one(strip_of({{75.1, 75.2, 75.3}, {76.1, 76.2, 76.3}}));
  CHECK(*flat.rows[0].gain == doctest::Approx(1));
  CHECK(!flat.rows[0].half_width);
  CHECK(!flat.rows[0].differs);
}

TEST_CASE("many_to_one: an empty strip has no rows") { CHECK(many_to_one({}).rows.empty()); }

TEST_CASE("many_to_one: values that are not finite are refused") {
  CHECK_THROWS_WITH_AS(many_to_one(strip_of({{75, 76}, {77, INFINITY}})),
                       "the value of seed 1 is inf; a strip needs finite values", InputError);
}

TEST_CASE("many_to_one: degrees of freedom add up over rows that share no seeds") {
  // Rows 0 and 1 have seeds 0 and 1, rows 2 and 3 have seeds 2 and 3. Each half alone has one degree of freedom.
  const SeedValues a{{0, 1}, {1, 2}}, b{{0, 2}, {1, 4}}, c{{2, 5}, {3, 1}}, d{{2, 5}, {3, 2}};
  const std::vector<const SeedValues*> all{&a, &b, &c, &d};
  const Squares squares = squares_after_seeds(all);
  CHECK(squares.freedom == 2);
  CHECK(squares.sum == doctest::Approx(1.0 / 4 + 1.0 / 4).epsilon(1e-12));  // half the squared difference over 2
  CHECK(squares_within(all).freedom == 4);
}

TEST_CASE("many_to_one: intervals cover 95% despite missing runs and unequal spreads") {
  const auto covered = [](const std::vector<double>& sds, std::size_t seeds, bool holes, double ratio) {
    int sum = 0;
    constexpr int kStrips = 4000;
    ManyToOneOptions options;
    options.p_values = false;
    options.spread_ratio = ratio;
    for (int number = 0; number < kStrips; ++number) {
      auto rows = drawn(std::uint64_t(number), sds, seeds);
      for (std::size_t r = 0; holes && r < rows.size(); ++r) rows[r][(r * 7 + 1) % seeds] = NAN;
      bool all = true;
      for (const Comparison& row : many_to_one(strip_of(rows), options).rows)
        all = all && std::abs(*row.gain) <= *row.half_width;
      sum += all;
    }
    return 100.0 * sum / kStrips;
  };
  const double complete = covered({1, 1, 1, 1, 1}, 5, false, 2), holes = covered({1, 1, 1, 1, 1}, 5, true, 2);
  // The last row is five times as noisy, so its interval is far too narrow if the noise is pooled.
  const double unequal = covered({1, 1, 1, 1, 5}, 8, false, 2), pooled = covered({1, 1, 1, 1, 5}, 8, false, 1e9);
  MESSAGE("covered: complete ", complete, "%, with holes ", holes, "%, unequal spreads ", unequal, "%, pooled there ",
          pooled, "%");
  CHECK(std::abs(complete - 95) < 1.1);  // three standard errors
  CHECK(holes > 93.9);
  CHECK(holes < 97);
  CHECK(unequal > 93.9);
  CHECK(pooled < 90);
}

TEST_CASE("many_to_one: a row with a larger spread selects Holm's procedure") {
  const ManyToOne noisy = many_to_one(strip_of(drawn(1, {1, 1, 8, 1, 1}, 8)));
  CHECK(noisy.procedure == Procedure::holm);
  CHECK(noisy.spread_row == 1);
  CHECK(*noisy.spread > noisy.spread_limit);
  CHECK(noisy.spread_limit >= 2);
}

TEST_CASE("many_to_one: a baseline with a larger spread selects Holm's procedure") {
  const ManyToOne baseline = many_to_one(strip_of(drawn(1, {8, 1, 1, 1, 1}, 8)));
  CHECK(baseline.procedure == Procedure::holm);
  CHECK(!baseline.spread_row);
}

TEST_CASE("many_to_one: similar spreads are pooled") {
  const ManyToOne equal = many_to_one(strip_of(kStrip));
  CHECK(equal.procedure == Procedure::pooled);
  CHECK(*equal.spread < equal.spread_limit);
}

TEST_CASE("many_to_one: a diverged row selects Holm's procedure") {
  Strip diverged = strip_of(kStrip);
  diverged.rows[2].diverged = true;
  const ManyToOne strip = many_to_one(diverged);
  CHECK(strip.procedure == Procedure::holm);
  CHECK(strip.diverged);
  CHECK(strip.rows[0].freedom == 2);
  CHECK(strip.compared == 4);
}

TEST_CASE("many_to_one: equal spreads exceed the F ratio's limit in 1% of strips") {
  int exceeded = 0;
  constexpr int kStrips = 10'000;
  for (int number = 0; number < kStrips; ++number) {
    ManyToOneOptions options;
    options.p_values = false;
    options.spread_ratio = 0;
    auto rows = drawn(std::uint64_t(number), {1, 1, 1, 1}, 4);
    if (number % 2 == 1) rows[2][1] = rows[0][3] = NAN;
    exceeded += many_to_one(strip_of(rows), options).procedure == Procedure::holm;
  }
  MESSAGE("equal spreads taken for unequal: ", 100.0 * exceeded / kStrips, "%");
  CHECK(exceeded < 140);  // at most 1%, four standard errors
  CHECK(exceeded > 50);
}

TEST_CASE("many_to_one: the best gain by chance is the largest of four normals") {
  const ManyToOne strip = many_to_one(strip_of(kStrip));
  const double best = *best_gain_by_chance({&strip, 1});
  CHECK(best ==
        doctest::Approx(strip.residual_sd / std::sqrt(3.0) * 1.0293753730).epsilon(1e-9));  // largest of 4 normals
  const std::vector<ManyToOne> two{strip, strip};
  CHECK(*best_gain_by_chance(two) > best);
}

TEST_CASE("many_to_one: simulated strips reach the best gain by chance on average") {
  double sum = 0;
  constexpr int kStrips = 4000;
  for (int number = 0; number < kStrips; ++number) {
    double largest = -INFINITY;
    ManyToOneOptions options;
    options.procedure = Procedure::pooled;
    options.p_values = false;
    for (const Comparison& row : many_to_one(strip_of(drawn(std::uint64_t(number), {1, 1, 1, 1, 1}, 3)), options).rows)
      largest = std::max(largest, *row.gain);
    sum += largest;
  }
  CHECK(sum / kStrips == doctest::Approx(1.0293753730 / std::sqrt(3.0)).epsilon(0.03));
}

TEST_CASE("many_to_one: the detectable gain has a power of 80%") {
  const ManyToOne strip = many_to_one(strip_of(kStrip));
  const DetectableGain gain = *detectable_gain(strip, 3);
  const double error = strip.residual_sd * std::sqrt(2.0 / 3);
  CHECK(t_test_power(gain.gain / error, strip.freedom, strip.critical) == doctest::Approx(0.8).epsilon(1e-9));
  CHECK(gain.low < gain.gain);
  CHECK(gain.high / gain.gain == doctest::Approx(sd_range(8).high).epsilon(1e-12));
  CHECK(detectable_gain(strip, 6)->gain < gain.gain / std::sqrt(2.0));
  CHECK(!detectable_gain(strip, 1));
}

TEST_CASE("many_to_one: the seeds needed are the fewest that detect the gain") {
  const ManyToOne strip = many_to_one(strip_of(kStrip));
  for (const double wanted : {0.02, 0.2, 0.5, 3.0}) {
    CAPTURE(wanted);
    const SeedsNeeded seeds = *seeds_needed(strip, wanted);
    CHECK(detectable_gain(strip, seeds.seeds)->gain <= wanted);
    if (seeds.seeds > 2) CHECK(detectable_gain(strip, seeds.seeds - 1)->gain > wanted);
    CHECK(seeds.low <= seeds.seeds);
    CHECK(seeds.high >= seeds.seeds);
  }
  CHECK(seeds_needed(strip, 1e-6)->seeds == 10'001);
}

TEST_CASE("many_to_one: two-stage seeds lower the detectable gain by their square root") {
  // More seeds narrow the interval; its degrees of freedom stay.
  ManyToOneOptions options;
  options.first_stage = {0, 1, 2};
  const ManyToOne first = many_to_one(strip_of(kStrip), options);
  CHECK(detectable_gain(first, 12)->gain == doctest::Approx(detectable_gain(first, 3)->gain / 2).epsilon(1e-9));
}

TEST_CASE("many_to_one: common draws correlate the runs of a seed") {
  // Seeds move all rows by normal(0, 1), runs by 0.5: 1 / 1.25.
  std::vector<ManyToOne> strips;
  ManyToOneOptions options;
  options.p_values = false;
  for (std::uint64_t number = 0; number < 300; ++number)
    strips.push_back(many_to_one(strip_of(drawn(number, {0.5, 0.5, 0.5}, 5)), options));
  CHECK(*common_draw_correlation(strips) == doctest::Approx(0.8).epsilon(0.02));
  const ManyToOne complete = many_to_one(strip_of(kStrip));
  CHECK(*common_draw_correlation({&complete, 1}) == doctest::Approx(0.87291).epsilon(1e-4));
}

TEST_CASE("many_to_one: a correlation below -1 becomes -1") {
  // Three rows of two seeds with two missing runs leave one degree of freedom, which gives -2.26.
  ManyToOne gaps;
  gaps.within_square = 1, gaps.within_freedom = 2, gaps.left_square = 3.26, gaps.left_freedom = 1;
  CHECK(*common_draw_correlation({&gaps, 1}) == -1.0);
}

TEST_CASE("many_to_one: the first stage alone sets the noise of two stages") {
  auto rows = drawn(5, {1, 1, 1}, 3);
  ManyToOneOptions options;
  options.first_stage = {0, 1, 2};
  const ManyToOne first = many_to_one(strip_of(rows), options);
  for (auto& row : rows) row.insert(row.end(), {70, 73, 61, 88, 70, 70, 71, 69, 72});  // 12 seeds, all rows alike
  const ManyToOne both = many_to_one(strip_of(rows), options);
  CHECK(both.two_stage);
  CHECK(both.residual_sd == first.residual_sd);
  CHECK(both.critical == first.critical);
  CHECK(both.freedom == 4);
  CHECK(both.rows[0].pairs == 12);
  CHECK(*both.rows[0].half_width == doctest::Approx(*first.rows[0].half_width / 2).epsilon(1e-12));
  CHECK(*both.rows[0].gain == doctest::Approx(*first.rows[0].gain / 4).epsilon(1e-10));
}
