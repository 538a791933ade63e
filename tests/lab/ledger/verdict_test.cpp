#include "experiments/lab/ledger/ledger.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "tests/lab/base/text.h"

using namespace normlab;

namespace {

constexpr double kInfinity = INFINITY;

ClaimTest test_of(ClaimTestKind kind, ClaimRange range, const std::string& where, const std::string& against = "") {
  ClaimTest test;
  test.kind = kind;
  test.range = range;
  test.where = where;
  test.against = against;
  test.place = "claims/01-x.json:7:3: /claim/tests/0";
  return test;
}

/// Rows "a" (the baseline), "b", ... with these accuracies by seed, in percent; NaN is a diverged run.
TableInput table_of(const std::vector<std::vector<double>>& rows, const std::vector<double>& depths = {}) {
  TableInput input;
  input.axes = {"model.placement", "model.depth"};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    TableRow& row = input.rows.emplace_back();
    row.label = std::string(1, char('a' + r));
    row.axes = {row.label, depths.empty() ? "4" : std::to_string(int(depths[r]))};
    row.baseline = 0;
    row.chance = 0.1;
    for (std::size_t s = 0; s < rows[r].size(); ++s) {
      TableSeed& seed = row.seeds.emplace_back();
      seed.seed = s;
      seed.state = std::isnan(rows[r][s]) ? SeedState::diverged : SeedState::done;
      if (!std::isnan(rows[r][s])) seed.value = rows[r][s] / 100;
    }
  }
  return input;
}

std::vector<Verdict> verdicts_of(const std::vector<Estimate>& estimates) {
  std::vector<Verdict> verdicts;
  for (const Estimate& e : estimates) verdicts.push_back(e.verdict);
  return verdicts;
}

Verdict verdict_of(const ClaimTest& test, const TableInput& input) {
  return combined(verdicts_of(judge_rows(test, input, 0.95).estimates), test.any);
}

const std::vector<double> kBase{70.0, 70.4, 69.8, 70.2, 69.9};

std::vector<double> plus(double gain, std::vector<double> noise = {0.1, -0.1, 0.05, 0, -0.05}) {
  for (std::size_t s = 0; s < noise.size(); ++s) noise[s] += kBase[s] + gain;
  return noise;
}

constexpr ClaimRange kPositiveClaim{0.0, {}, false};

}  // namespace

TEST_CASE("verdict: an interval within the range holds, outside it fails, across a bound it decides nothing") {
  const ClaimRange range{-1.0, 0.0, false}, outside{-1.0, 0.0, true};
  struct Case {
    double low, high;
    Verdict verdict;
  };
  for (const Case& c :
       {Case{-0.9, -0.1, Verdict::holds}, Case{-1.0, 0.0, Verdict::holds}, Case{0.1, 0.5, Verdict::fails},
        Case{-3.0, -1.1, Verdict::fails}, Case{-0.5, 0.1, Verdict::undecided}, Case{-2.0, 1.0, Verdict::undecided}}) {
    CAPTURE(c.low);
    CHECK(judge(range, c.low, c.high) == c.verdict);
    const Verdict reversed = c.verdict == Verdict::holds   ? Verdict::fails
                             : c.verdict == Verdict::fails ? Verdict::holds
                                                           : Verdict::undecided;
    CHECK(judge(outside, c.low, c.high) == reversed);
  }
  CHECK(judge(kPositiveClaim, 0.1, kInfinity) == Verdict::holds);
}

TEST_CASE("verdict: all estimates must agree, or with any one of them") {
  using enum Verdict;
  CHECK(combined(std::vector{holds, holds}) == holds);
  CHECK(combined(std::vector{holds, undecided}) == undecided);
  CHECK(combined(std::vector{undecided, fails, not_run}) == fails);
  CHECK(combined(std::vector{undecided, not_run}) == not_run);
  CHECK(combined(std::vector{fails, holds}, true) == holds);
  CHECK(combined(std::vector{fails, undecided}, true) == undecided);
  CHECK(combined(std::vector{fails, fails}, true) == fails);
  CHECK(combined(std::vector<Verdict>()) == not_run);
}

TEST_CASE("verdict: made-up results give the verdicts that are known for them") {
  const ClaimTest gain = test_of(ClaimTestKind::gain, kPositiveClaim, "placement != a");
  CHECK(verdict_of(gain, table_of({kBase, plus(2), plus(1)})) == Verdict::holds);
  CHECK(verdict_of(gain, table_of({kBase, plus(2), plus(-1)})) == Verdict::fails);
  CHECK(verdict_of(gain, table_of({kBase, plus(2), plus(0)})) == Verdict::undecided);
  const ClaimTest none = test_of(ClaimTestKind::gain, {{}, 0.5, false}, "placement != a");
  CHECK(verdict_of(none, table_of({kBase, plus(-2), plus(0)})) == Verdict::holds);
  CHECK(verdict_of(none, table_of({kBase, plus(-2), plus(1.5)})) == Verdict::fails);
}

TEST_CASE("verdict: a gain with diverged runs decides nothing, unless they count as guessing") {
  const double nan = std::nan("");
  const TableInput input = table_of({kBase, {72, 72, nan, 72, 72}});
  ClaimTest gain = test_of(ClaimTestKind::gain, kPositiveClaim, "placement != a");
  const std::vector<Estimate> estimates = judge_rows(gain, input, 0.95).estimates;
  REQUIRE(estimates.size() == 1);
  CHECK(estimates[0].verdict == Verdict::undecided);
  CHECK(estimates[0].why == "1 of 5 runs of b diverged");
  CHECK_FALSE(estimates[0].seeds_needed.has_value());
  gain.chance = true;
  const TableInput all = table_of({kBase, {nan, nan, nan, nan, nan}});
  gain.range = {{}, 0.0, false};
  CHECK(verdict_of(gain, all) == Verdict::holds);
}

TEST_CASE("verdict: an undecided gain names the seeds with which its interval would leave the bound") {
  const TableInput input = table_of({kBase, plus(0.3, {0.5, -0.5, 0.4, -0.4, 0.1})});
  const Estimate e =
      judge_rows(test_of(ClaimTestKind::gain, kPositiveClaim, "placement != a"), input, 0.95).estimates[0];
  REQUIRE(e.verdict == Verdict::undecided);
  const double half = (e.high - e.low) / 2;
  REQUIRE(e.seeds_needed.has_value());
  CHECK(half * std::sqrt(5.0 / double(*e.seeds_needed)) <= e.value);
  CHECK(half * std::sqrt(5.0 / double(*e.seeds_needed - 1)) > e.value);
}

TEST_CASE("verdict: an interaction is the difference of two gains, by seed") {
  TableInput input = table_of({kBase, plus(2), kBase, plus(0.5)}, {4, 4, 8, 8});
  input.rows[2].baseline = input.rows[3].baseline = 2;
  const ClaimTest test = test_of(ClaimTestKind::interaction, kPositiveClaim, "row = b", "row = d");
  const RowsJudged judged = judge_rows(test, input, 0.95);
  CHECK(judged.estimates[0].value == doctest::Approx(1.5));
  CHECK(judged.estimates[0].verdict == Verdict::holds);
  CHECK(judged.rows == std::set<std::size_t>{0, 1, 2, 3});
}

TEST_CASE("verdict: a slope is that of the gains over an axis") {
  const TableInput input = table_of({kBase, plus(1), plus(2), plus(4)}, {4, 4, 8, 16});
  ClaimTest test = test_of(ClaimTestKind::slope, kPositiveClaim, "row != a");
  test.over = "depth";
  const Estimate e = judge_rows(test, input, 0.95).estimates[0];
  CHECK(e.value == doctest::Approx(0.25));
  CHECK(e.verdict == Verdict::holds);
  test.over = "width";
  CHECK_THROWS_WITH_AS(judge_rows(test, input, 0.95), doctest::Contains("unknown axis or column \"width\""),
                       InputError);
}

TEST_CASE("verdict: an axis with one value does not hide the one that a slope is over") {
  TableInput input = table_of({kBase, plus(1), plus(2), plus(4)}, {4, 4, 8, 16});
  input.axes.insert(input.axes.begin(), "train.epochs");
  for (TableRow& row : input.rows) row.axes.insert(row.axes.begin(), "1");
  ClaimTest test = test_of(ClaimTestKind::slope, kPositiveClaim, "row != a");
  test.over = "depth";
  CHECK(judge_rows(test, input, 0.95).estimates[0].value == doctest::Approx(0.25));
}

TEST_CASE("verdict: a mean over benchmarks needs the runs of all of them") {
  TableInput input = table_of({kBase, plus(2), kBase, plus(2)});
  input.rows[2].mean_of = {0};
  input.rows[3].mean_of = {1};
  input.rows[2].baseline = input.rows[3].baseline = 2;
  const RowsJudged judged = judge_rows(test_of(ClaimTestKind::gain, kPositiveClaim, "row = d"), input, 0.95);
  CHECK(judged.rows == std::set<std::size_t>{0, 1});
  CHECK(judged.estimates[0].verdict == Verdict::holds);
}

TEST_CASE("verdict: gains with unequal spreads have intervals that hold together") {
  // Holm's procedure marks "c", whose interval at Bonferroni's level contains zero.
  const TableInput input = table_of({kBase, plus(9, {0.1, -0.1, 0.05, 0, -0.05}), plus(1.15, {1, -1, 0.6, -0.6, 0})});
  TableOptions options;
  options.family = TableFamily::table;
  const TableModel table = table_model(input, options);
  REQUIRE(table.lines[2].cut);
  const Estimate e = judge_rows(test_of(ClaimTestKind::gain, kPositiveClaim, "row = c"), input, 0.95).estimates[0];
  CHECK(e.low == doctest::Approx(*table.lines[2].gain.value - *table.lines[2].gain_half_width.value));
  CHECK(e.low < 0);
  CHECK(e.verdict == Verdict::undecided);
}

TEST_CASE("verdict: shares of diverged runs have exact intervals") {
  const double nan = std::nan("");
  const TableInput input = table_of({kBase, {nan, nan, nan, nan, nan}});
  const Estimate share =
      judge_rows(test_of(ClaimTestKind::diverged, {50.0, {}, false}, "row = b"), input, 0.95).estimates[0];
  CHECK(share.value == 100);
  CHECK(share.unit == "%");
  CHECK(share.low == doctest::Approx(100 * std::pow(0.025, 0.2)));  // Clopper and Pearson, all of five
  CHECK(share.verdict == Verdict::undecided);
  const Estimate difference =
      judge_rows(test_of(ClaimTestKind::diverged, {0.0, {}, false}, "row = b", "row = a"), input, 0.95).estimates[0];
  CHECK(difference.value == 100);
  CHECK(difference.unit == "points");
  CHECK(difference.low < share.low);
  CHECK(difference.n == 10);
}

TEST_CASE("verdict: an undecided share names the seeds that would decide it if it stayed") {
  const TableInput input = table_of({kBase, kBase});
  const auto none_of = [&](double bound) {
    return judge_rows(test_of(ClaimTestKind::diverged, {bound, {}, false}, "row = b"), input, 0.95).estimates[0];
  };
  const Estimate rare = none_of(1);
  CHECK(rare.verdict == Verdict::undecided);
  CHECK(rare.seeds_needed == std::size_t(std::ceil(std::log(0.025) / std::log(0.99))));  // none of n diverge
  CHECK(none_of(60).verdict == Verdict::fails);
  CHECK_FALSE(none_of(60).seeds_needed.has_value());
  CHECK_FALSE(none_of(1e-7).seeds_needed.has_value());  // more than a million
  const Estimate both =
      judge_rows(test_of(ClaimTestKind::diverged, {1.0, {}, false}, "row = a or row = b"), input, 0.95).estimates[0];
  CHECK(both.n == 10);
  CHECK(both.seeds_needed == (*rare.seeds_needed + 1) / 2);  // two rows share the runs
}

TEST_CASE("verdict: the best value of an axis has the values that nothing is shown to beat") {
  TableInput input =
      table_of({plus(0), plus(3), plus(1), plus(2.9, {0.3, -0.3, 0.2, -0.2, 0}), plus(0), plus(3)}, {1, 2, 3, 1, 2, 3});
  for (std::size_t r = 0; r < 6; ++r) input.rows[r].axes[0] = r < 3 ? "one" : "two";
  ClaimTest test = test_of(ClaimTestKind::best, {{}, -0.5, false}, "placement = one", "placement = two");
  test.over = "depth";
  const Estimate e = judge_rows(test, input, 0.95).estimates[0];
  CHECK(e.value == 2 - 3);
  CHECK(e.low == 2 - 3);  // "two": both 1 and 3 may be best
  CHECK(e.high == 2 - 1);
  CHECK(e.verdict == Verdict::undecided);
  REQUIRE(e.seeds_needed.has_value());  // with which 3 beats 1 by 0.1
  const double half = *mean_interval(std::vector{0.2, -0.2, 0.15, -0.2, 0.05}, 1 - 0.025 / 3)->half_width;
  CHECK(half * std::sqrt(5.0 / double(*e.seeds_needed)) < 0.1);
  CHECK(half * std::sqrt(5.0 / double(*e.seeds_needed - 1)) > 0.1);
}

TEST_CASE("verdict: a best value without the runs that diverged decides nothing") {
  const double nan = std::nan("");
  for (const std::vector<double>& lost : {std::vector<double>{70, nan, 70.1, 70, 69.9}, std::vector<double>(5, nan)}) {
    TableInput input = table_of({plus(0), plus(3), lost, plus(0), plus(3), plus(1)}, {1, 2, 3, 1, 2, 3});
    for (std::size_t r = 0; r < 6; ++r) input.rows[r].axes[0] = r < 3 ? "one" : "two";
    ClaimTest test = test_of(ClaimTestKind::best, {{}, 5.0, false}, "placement = one", "placement = two");
    test.over = "depth";
    const Estimate e = judge_rows(test, input, 0.95).estimates[0];
    CHECK(e.verdict == Verdict::undecided);
    CHECK(has(e.why, "5 runs of c diverged"));
  }
}

TEST_CASE("verdict: with two stages of seeds, a best value has the noise of the first") {
  TableInput input = table_of({plus(0, {0.1, -0.1, 0.05, 3, -3}), kBase}, {1, 2});
  for (TableRow& row : std::vector<TableRow>(input.rows)) input.rows.push_back(row);
  for (std::size_t r = 0; r < 4; ++r) input.rows[r].axes[0] = r < 2 ? "one" : "two";
  for (TableSeed& seed : input.rows[0].seeds) seed.value = *seed.value + 0.01;
  ClaimTest test = test_of(ClaimTestKind::best, {{}, 0.0, false}, "placement = one", "placement = two");
  test.over = "depth";
  CHECK(judge_rows(test, input, 0.95).estimates[0].low == 1 - 2);  // nothing is shown to beat 2
  input.first_stage = {0, 1, 2};
  const Estimate e = judge_rows(test, input, 0.95).estimates[0];
  CHECK(e.low == 1 - 2);  // of "two"
  CHECK(e.high == 1 - 1);
}

TEST_CASE("verdict: ratios are judged on logarithms") {
  Contrast ratio{.label = "r", .unit = "x", .logs = true};
  for (std::uint64_t s = 0; s < 5; ++s) ratio.values[s] = std::log(2.0) + 0.01 * double(s) - 0.02;
  const Estimate e = judge_contrasts({ratio}, {1.5, {}, false}, 0.95, {})[0];
  CHECK(e.value == doctest::Approx(2));
  CHECK(e.low > 1.9);
  CHECK(e.verdict == Verdict::holds);
  CHECK(judge_contrasts({ratio}, {{}, 1.5, false}, 0.95, {})[0].verdict == Verdict::fails);
}

TEST_CASE("verdict: contrasts of one test share its level") {
  Contrast one{.label = "one", .unit = ""};
  for (std::uint64_t s = 0; s < 5; ++s) one.values[s] = double(s);
  const Estimate alone = judge_contrasts({one}, kPositiveClaim, 0.95, {})[0];
  const Estimate among = judge_contrasts({one, one, one, one}, kPositiveClaim, 0.95, {})[0];
  const double t = student_t_two_sided_quantile(0.05 / 4, 4), s = std::sqrt(2.5 / 5);
  CHECK(among.high - among.value == doctest::Approx(t * s));
  CHECK(alone.high < among.high);
}

TEST_CASE("verdict: a higher level widens the intervals of gains") {
  const TableInput input = table_of({kBase, plus(1)});
  const ClaimTest test = test_of(ClaimTestKind::gain, kPositiveClaim, "row = b");
  const Estimate usual = judge_rows(test, input, 0.95).estimates[0],
                 strict = judge_rows(test, input, 0.99).estimates[0];
  CHECK((strict.high - strict.low) / (usual.high - usual.low) ==
        doctest::Approx(student_t_two_sided_quantile(0.01, 4) / student_t_two_sided_quantile(0.05, 4)));
}

TEST_CASE("verdict: filters that select nothing name the test's place") {
  const TableInput input = table_of({kBase, plus(1)});
  for (const auto& [where, part] : {std::pair{"row = z", "no row of the sweep matches row = z"},
                                    {"row = a", "only baselines match row = a"},
                                    {"rwo = a", "unknown axis or column \"rwo\""}})
    CHECK_THROWS_WITH_AS(judge_rows(test_of(ClaimTestKind::gain, kPositiveClaim, where), input, 0.95),
                         doctest::Contains(part), InputError);
  CHECK_THROWS_WITH_AS(judge_rows(test_of(ClaimTestKind::gain, kPositiveClaim, "row = z"), input, 0.95),
                       doctest::Contains("claims/01-x.json:7:3: /claim/tests/0"), InputError);
}

TEST_CASE("verdict: in 2,000 simulated sweeps at most 5% of the verdicts are false") {
  // Three rows and a baseline, 5 seeds that share half of their noise. The true gains lie just outside or just inside
  // the range, where errors are most frequent, or far from it.
  const StreamKey key = stream_key(7, "verdict_test", "sweeps");
  std::uint64_t drawn = 0;
  const auto noise = [&] { return normal(key, drawn++); };
  std::size_t wrong[3] = {}, decided = 0;
  constexpr std::size_t kSweeps = 2000;
  const ClaimTest tests[] = {test_of(ClaimTestKind::gain, kPositiveClaim, "row != a"),
                             test_of(ClaimTestKind::gain, {{}, 0.5, false}, "row != a"),
                             test_of(ClaimTestKind::gain, {-0.5, 0.5, false}, "row != a")};
  const std::vector<std::vector<double>> truths{
      {-1e-9, -1e-9, -1e-9}, {0.5 + 1e-9, 0.5 + 1e-9, -2}, {0, 2, 3}, {-0.5 - 1e-9, 0.5 + 1e-9, 0}};
  for (std::size_t sweep = 0; sweep < kSweeps; ++sweep) {
    const std::vector<double>& truth = truths[sweep % truths.size()];
    std::vector<std::vector<double>> rows(4, std::vector<double>(5));
    for (std::size_t s = 0; s < 5; ++s) {
      const double shared = noise();
      for (std::size_t r = 0; r < 4; ++r) rows[r][s] = 70 + shared + 0.4 * noise() + (r == 0 ? 0 : truth[r - 1]);
    }
    const TableInput input = table_of(rows);
    for (std::size_t t = 0; t < 3; ++t) {
      std::vector<Verdict> right;
      for (const double gain : truth) right.push_back(judge(tests[t].range, gain, gain));
      const Verdict verdict = verdict_of(tests[t], input);
      if (verdict == Verdict::undecided) continue;
      ++decided;
      wrong[t] += verdict != combined(right);
    }
  }
  for (const std::size_t count : wrong) CHECK(count <= kSweeps / 20);
  CHECK(decided > kSweeps / 2);
  MESSAGE("false verdicts in ", kSweeps, " sweeps: ", wrong[0], ", ", wrong[1], ", ", wrong[2]);
}
