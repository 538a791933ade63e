// All pairs of rows: their intervals, and the letters that sum them up.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <set>

#include "core/error.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/statistics/distributions.h"
#include "experiments/lab/statistics/letters.h"
#include "experiments/lab/statistics/many_to_one.h"

using namespace normlab;

namespace {

StripRow row_of(const std::vector<double>& values, bool apart = false) {
  StripRow row;
  for (std::size_t s = 0; s < values.size(); ++s) row.values[s] = values[s];
  row.apart = apart;
  return row;
}

using Differences = std::vector<std::pair<std::size_t, std::size_t>>;

std::vector<std::string> letters_of(std::size_t rows, const Differences& different) {
  std::vector<std::size_t> order(rows);
  for (std::size_t r = 0; r < rows; ++r) order[r] = r;
  std::vector<std::string> letters(rows);
  std::size_t next = 0;
  for (const LetterGroup& group : letter_groups(order, different)) {
    for (const std::size_t row : group) letters[row] += letter_of(next);
    ++next;
  }
  return letters;
}

bool share(const std::string& a, const std::string& b) { return a.find_first_of(b) != std::string::npos; }

/// Two rows share a letter exactly if they do not differ, and no letter of a row could be left out.
void check_letters(const std::vector<std::string>& letters, const Differences& different) {
  const auto shows_all = [&](const std::vector<std::string>& given) {
    for (std::size_t b = 0; b < given.size(); ++b)
      for (std::size_t a = 0; a <= b; ++a) {
        const bool differ = std::find(different.begin(), different.end(), std::pair(a, b)) != different.end();
        if (share(given[a], given[b]) == differ) return false;
      }
    return true;
  };
  CHECK(shows_all(letters));
  for (std::size_t r = 0; r < letters.size(); ++r)
    for (std::size_t i = 0; i < letters[r].size(); ++i) {
      std::vector<std::string> without = letters;
      without[r].erase(i, 1);
      CHECK(!shows_all(without));
    }
}

}  // namespace

TEST_CASE("all_pairs: two rows are compared as a row with its baseline") {
  const StripRow base = row_of({76.263, 75.829, 75.947, 76.535, 75.904}),
                 other = row_of({76.657, 76.507, 76.196, 77.073, 76.612});
  const Comparison gain = many_to_one({base, {other}}).rows.front();
  const AllPairs pairs = all_pairs(std::vector{base, other});
  REQUIRE(pairs.pairs.size() == 1);
  CHECK(pairs.compared == 1);
  const Comparison& pair = pairs.pairs.front().difference;
  CHECK(*pair.gain == *gain.gain);
  CHECK(*pair.half_width == *gain.half_width);
  CHECK(*pair.p == *gain.p);
}

TEST_CASE("all_pairs: rows apart have paired t intervals at Bonferroni's level") {
  // Differences of rows 1 and 0: 1, 2, 3 with mean 2 and sd 1; three pairs.
  const std::vector<StripRow> rows{row_of({1, 1, 1}, true), row_of({2, 3, 4}, true), row_of({5, 2, 9}, true)};
  const AllPairs all = all_pairs(rows);
  REQUIRE(all.pairs.size() == 3);
  const RowPair& first = all.pairs.front();
  CHECK(first.a == 0);
  CHECK(first.b == 1);
  CHECK(*first.difference.gain == doctest::Approx(2));
  CHECK(*first.difference.half_width ==
        doctest::Approx(student_t_two_sided_quantile(0.05 / 3, 2) / std::sqrt(3.0)).epsilon(1e-12));
  CHECK(all.pairs[2].a == 1);
  CHECK(all.pairs[2].b == 2);
  CHECK(*all.pairs[2].difference.gain == doctest::Approx((3 - 1 + 5) / 3.0));
}

TEST_CASE("all_pairs: rows that share no two seeds have no interval") {
  StripRow late;
  late.values = {{7, 1.0}, {8, 2.0}};
  const AllPairs all = all_pairs(std::vector{row_of({1, 2}), late, row_of({2, 4})});
  CHECK(all.compared == 1);
  CHECK(!all.pairs[0].difference.gain);
  CHECK(!all.pairs[2].difference.half_width);
  CHECK(all_pairs(std::vector<StripRow>{}).pairs.empty());
}

TEST_CASE("all_pairs: a family of several strips has wider intervals, and rows need finite values") {
  const std::vector<StripRow> rows{row_of({1, 2, 4}), row_of({2, 2, 3}), row_of({3, 1, 5})};
  const double narrow = *all_pairs(rows).pairs[0].difference.half_width,
               wide = *all_pairs(rows, {.family_rows = 6}).pairs[0].difference.half_width;
  CHECK(wide > narrow);
  CHECK_THROWS_AS(all_pairs(rows, {.family_rows = 2}), InputError);
  CHECK_THROWS_AS(all_pairs(std::vector{row_of({1, INFINITY}), rows[0]}), InputError);
}

TEST_CASE("interval_simulation: intervals of all pairs hold together for equal and unequal spreads") {
  constexpr std::size_t kSweeps = 2000;  // a standard error of 0.5%
  const SimulatedStrip equal{.rows = 5, .seeds = 5, .pairs = true};
  // scipy.stats.studentized_range.ppf(0.95, 6, 20) / sqrt(2) is 3.1443, times the mean of a sd on 20 degrees.
  CHECK(simulated_equal_width(equal, 4000) == doctest::Approx(3.1443 * 0.98758).epsilon(0.02));
  CHECK(simulated_intervals(equal, kSweeps).coverage > 0.95);
  CHECK(simulated_intervals(equal, kSweeps).width / simulated_equal_width(equal, kSweeps) < 1.2);
  for (const double times : {3, 10})
    CHECK(
        simulated_intervals({.rows = 5, .seeds = 4, .noisy_rows = 2, .times = times, .pairs = true}, kSweeps).coverage >
        0.93);
}

TEST_CASE("letters: one difference of three rows") {
  // The example of R's multcompView: A-B and A-C do not differ, B-C does.
  CHECK(letters_of(3, {{1, 2}}) == std::vector<std::string>{"ab", "a", "b"});
}

TEST_CASE("letters: rows without differences share one, and rows that all differ have their own") {
  CHECK(letters_of(3, {}) == std::vector<std::string>{"a", "a", "a"});
  CHECK(letters_of(3, {{0, 1}, {0, 2}, {1, 2}}) == std::vector<std::string>{"a", "b", "c"});
  CHECK(letters_of(1, {}) == std::vector<std::string>{"a"});
  CHECK(letters_of(0, {}).empty());
}

TEST_CASE("letters: Piepho's wheat trial of 20 varieties needs four letters") {
  // The 18 significant pairs of Piepho (2004). All maximal groups have 56 letters; the fewest are 44 (Ennis, Fayle and
  // Ennis, Journal of Experimental Algorithmics 17, 2012, table 7).
  Differences different;
  for (const auto& [a, b] : {std::pair<std::size_t, std::size_t>{2, 20},
                             {3, 18},
                             {3, 20},
                             {4, 20},
                             {5, 12},
                             {5, 20},
                             {6, 20},
                             {7, 12},
                             {7, 20},
                             {9, 20},
                             {10, 12},
                             {10, 20},
                             {11, 20},
                             {12, 16},
                             {12, 18},
                             {13, 20},
                             {16, 20},
                             {18, 20}})
    different.emplace_back(a - 1, b - 1);
  const std::vector<std::string> letters = letters_of(20, different);
  std::set<char> used;
  std::size_t count = 0;
  for (const std::string& word : letters) {
    used.insert(word.begin(), word.end());
    count += word.size();
  }
  CHECK(used.size() == 4);
  CHECK(count >= 44);
  CHECK(count < 56);
  check_letters(letters, different);
}

TEST_CASE("letters: random differences are shown exactly, without a letter too many") {
  std::mt19937 draw(5);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const std::size_t rows = 2 + draw() % 8;
    Differences different;
    for (std::size_t b = 1; b < rows; ++b)
      for (std::size_t a = 0; a < b; ++a)
        if (draw() % 3 == 0) different.emplace_back(a, b);
    check_letters(letters_of(rows, different), different);
  }
}

TEST_CASE("letters: the letters of many groups stay apart") {
  CHECK(letter_of(25) == "z");
  CHECK(letter_of(26) == "A");
  CHECK(letter_of(52) == "(53)");
}
