#include "experiments/lab/statistics/many_to_one.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "tests/lab/statistics/known_tests.h"

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
  CHECK(strip.sd == doctest::Approx(sample_sd(std::vector{0.5, 0.25, 1.0, 0.5})).epsilon(1e-12));
  CHECK(strip.freedom == 3);
}

TEST_CASE("many_to_one: standard errors are those of moderated paired variances") {
  const ManyToOne strip = many_to_one(strip_of(kStrip));
  std::vector<Variance> own;
  for (std::size_t r = 1; r < kStrip.size(); ++r) {
    std::vector<double> paired;
    for (std::size_t s = 0; s < 3; ++s) paired.push_back(kStrip[r][s] - kStrip[0][s]);
    own.push_back({sample_sd(paired) * sample_sd(paired), 2});
  }
  const Variance prior = prior_variance(own);
  for (std::size_t r = 0; r < own.size(); ++r) {
    const Variance noise = moderated(own[r], prior, own.size());
    const Comparison& row = strip.rows[r];
    CHECK(*row.standard_error == doctest::Approx(std::sqrt(noise.value / 3)).epsilon(1e-12));
    CHECK(row.freedom == doctest::Approx(noise.freedom).epsilon(1e-12));
    CHECK(*row.half_width ==
          doctest::Approx(*row.standard_error * student_t_two_sided_quantile(0.05 / 4, noise.freedom)).epsilon(1e-12));
  }
  CHECK(strip.sd == doctest::Approx(std::sqrt(prior.value)).epsilon(1e-12));
}

TEST_CASE("many_to_one: a row apart has its own interval and leaves those of the others") {
  auto rows = drawn(3, {1, 1, 1, 1, 1}, 5);
  const ManyToOne without = many_to_one(strip_of(rows));
  rows.push_back(drawn(4, {40, 40}, 5)[1]);
  Strip strip = strip_of(rows);
  strip.rows.back().apart = true;
  const ManyToOne apart = many_to_one(strip);
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(apart.rows[r].standard_error == without.rows[r].standard_error);
    CHECK(apart.rows[r].freedom == without.rows[r].freedom);
    CHECK(!apart.rows[r].apart);
  }
  CHECK(apart.rows[4].freedom == 4);
  CHECK(apart.sd == without.sd);
  // Without the declaration the others borrow less from each other.
  strip.rows.back().apart = false;
  CHECK(many_to_one(strip).rows[0].freedom < apart.rows[0].freedom);
  // A baseline that stands apart concerns all.
  strip.baseline.apart = true;
  for (const Comparison& row : many_to_one(strip).rows) CHECK(row.freedom == 4);
}

TEST_CASE("many_to_one: a noisy row is wide and a quiet one narrow") {
  const ManyToOne strip = many_to_one(strip_of(drawn(1, {0.3, 0.3, 0.3, 8, 8, 0.3}, 5)));
  for (const std::size_t noisy : {2, 3})
    for (const std::size_t quiet : {0, 1, 4}) CHECK(*strip.rows[noisy].half_width > 4 * *strip.rows[quiet].half_width);
}

TEST_CASE("many_to_one: interval, mark and p value agree") {
  for (const bool apart : {false, true})
    for (std::uint64_t number = 0; number < 40; ++number) {
      auto rows = drawn(number, {0.3, 0.3, 0.3, 0.3, 0.3, 0.3}, 4);
      for (std::size_t r = 1; r < rows.size(); ++r)
        for (double& value : rows[r]) value += 0.3 * double(r);
      Strip values = strip_of(rows);
      values.baseline.apart = apart;
      ManyToOneOptions options;
      options.family_rows = number % 2 == 0 ? 0 : 20;
      const ManyToOne strip = many_to_one(values, options);
      for (const Comparison& row : strip.rows) {
        CAPTURE(number);
        CHECK(row.differs == (*row.low >= 0 || *row.high <= 0));
        CHECK(row.differs == (*row.p < 0.05));
        CHECK((row.cut ? *row.low == 0 || *row.high == 0 : *row.high - *row.gain == doctest::Approx(*row.half_width)));
      }
    }
}

TEST_CASE("many_to_one: a family of two strips is right in 95% of cases") {
  const ManyToOne alone = many_to_one(strip_of(kStrip));
  ManyToOneOptions options;
  options.family_rows = 8;
  const ManyToOne two = many_to_one(strip_of(kStrip), options);
  CHECK(two.level == doctest::Approx(std::sqrt(0.95)).epsilon(1e-12));
  CHECK(*two.rows[0].half_width > *alone.rows[0].half_width);
  // Of two independent strips, both are right with 95%, and 1 - p multiplies too.
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
  const ManyToOne complete = many_to_one(strip_of(rows));
  rows[1][2] = rows[3][0] = NAN;
  const ManyToOne strip = many_to_one(strip_of(rows));
  CHECK(strip.compared == 4);
  CHECK(strip.rows[0].pairs == 2);
  CHECK(*strip.rows[0].gain == doctest::Approx(((76.958 - 75.797) + (77.287 - 75.219)) / 2).epsilon(1e-12));
  CHECK(strip.rows[0].freedom < strip.rows[1].freedom);
  CHECK(complete.rows[0].freedom == doctest::Approx(complete.rows[1].freedom));
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

TEST_CASE("many_to_one: a row of one pair has a gain without an interval") {
  std::vector<std::vector<double>> rows = kStrip;
  rows[4] = {75, NAN, NAN};
  const ManyToOne holes = many_to_one(strip_of(rows));
  CHECK(holes.compared == 3);
  CHECK(holes.rows[3].pairs == 1);
  CHECK(holes.rows[3].gain);
  CHECK(!holes.rows[3].half_width);
}

TEST_CASE("many_to_one: a row whose differences are equal borrows the others' noise") {
  std::vector<std::vector<double>> rows = kStrip;
  rows[4] = rows[0];
  for (double& value : rows[4]) value += 0.5;
  const ManyToOne strip = many_to_one(strip_of(rows));
  CHECK(*strip.rows[3].half_width > 0);
  rows.pop_back();
  CHECK(strip.rows[0].standard_error == many_to_one(strip_of(rows)).rows[0].standard_error);
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

TEST_CASE("many_to_one: intervals cover the gains where runs are missing") {
  constexpr int kStrips = 4000;
  int sum = 0;
  for (int number = 0; number < kStrips; ++number) {
    auto rows = drawn(std::uint64_t(number), {1, 1, 1, 1, 1}, 6);
    for (std::size_t r = 0; r < rows.size(); ++r) rows[r][(r * 7 + 1) % 6] = NAN;
    bool all = true;
    for (const Comparison& row : many_to_one(strip_of(rows)).rows) all = all && std::abs(*row.gain) <= *row.half_width;
    sum += all;
  }
  const double covered = 100.0 * sum / kStrips;
  MESSAGE("covered with holes: ", covered, "%");
  CHECK(covered > 93);
  CHECK(covered < 96.5);
}

TEST_CASE("many_to_one: the best gain by chance is that of the rows' errors") {
  const ManyToOne strip = many_to_one(strip_of(kStrip));
  std::vector<double> errors;
  for (const Comparison& row : strip.rows) errors.push_back(*row.standard_error);
  CHECK(*best_gain_by_chance({&strip, 1}) == expected_best({errors}));
  const std::vector<ManyToOne> two{strip, strip};
  CHECK(*best_gain_by_chance(two) > *best_gain_by_chance({&strip, 1}));
}

TEST_CASE("many_to_one: simulated strips reach the best gain by chance on average") {
  double sum = 0, predicted = 0;
  constexpr int kStrips = 4000;
  for (int number = 0; number < kStrips; ++number) {
    const ManyToOne strip = many_to_one(strip_of(drawn(std::uint64_t(number), {1, 1, 1, 1, 1}, 3)));
    double largest = -INFINITY;
    for (const Comparison& row : strip.rows) largest = std::max(largest, *row.gain);
    sum += largest / kStrips;
    if (number < 400) predicted += *best_gain_by_chance({&strip, 1}) / 400;
  }
  CHECK(sum == doctest::Approx(1.0293753730 / std::sqrt(3.0)).epsilon(0.03));
  CHECK(predicted == doctest::Approx(sum).epsilon(0.1));
}

TEST_CASE("many_to_one: the detectable gain has a power of 80%") {
  const ManyToOne strip = many_to_one(strip_of(kStrip));
  const DetectableGain gain = *detectable_gain(strip, 3);
  const double critical = student_t_two_sided_quantile(0.05 / 4, strip.freedom);
  CHECK(t_test_power(gain.gain / (strip.sd / std::sqrt(3.0)), strip.freedom, critical) ==
        doctest::Approx(0.8).epsilon(1e-9));
  CHECK(gain.low < gain.gain);
  CHECK(gain.high / gain.gain == doctest::Approx(sd_range(strip.freedom).high).epsilon(1e-12));
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
  for (std::uint64_t number = 0; number < 300; ++number)
    strips.push_back(many_to_one(strip_of(drawn(number, {0.5, 0.5, 0.5}, 5)), options));
  CHECK(*common_draw_correlation(strips) == doctest::Approx(0.8).epsilon(0.02));
  const ManyToOne complete = many_to_one(strip_of(kStrip));
  CHECK(*common_draw_correlation({&complete, 1}) == doctest::Approx(0.87291).epsilon(1e-4));
}

TEST_CASE("many_to_one: the correlation of draws takes the rows that have all seeds of the baseline") {
  auto rows = drawn(2, {0.5, 0.5, 0.5}, 6);
  const ManyToOne complete = many_to_one(strip_of(rows));
  rows.push_back(rows[1]);
  rows.back()[3] = NAN;
  const ManyToOne holes = many_to_one(strip_of(rows));
  CHECK(*common_draw_correlation({&holes, 1}) == *common_draw_correlation({&complete, 1}));
}

TEST_CASE("many_to_one: the first stage alone sets the noise of two stages") {
  auto rows = drawn(5, {1, 1, 1}, 3);
  ManyToOneOptions options;
  options.first_stage = {0, 1, 2};
  const ManyToOne first = many_to_one(strip_of(rows), options);
  for (auto& row : rows) row.insert(row.end(), {70, 73, 61, 88, 70, 70, 71, 69, 72});  // 12 seeds, all rows alike
  const ManyToOne both = many_to_one(strip_of(rows), options);
  CHECK(both.two_stage);
  CHECK(both.sd == first.sd);
  CHECK(both.freedom == first.freedom);
  CHECK(both.rows[0].pairs == 12);
  CHECK(*both.rows[0].half_width == doctest::Approx(*first.rows[0].half_width / 2).epsilon(1e-12));
  CHECK(*both.rows[0].gain == doctest::Approx(*first.rows[0].gain / 4).epsilon(1e-10));
}
