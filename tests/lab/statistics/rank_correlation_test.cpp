#include "experiments/lab/statistics/student.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/random.h"

using normlab::spearman;

TEST_CASE("rank correlation: equals scipy.stats.spearmanr") {
  const std::vector<double> x{1, 2, 3, 4, 5, 6}, up{0.1, 0.4, 0.5, 3, 40, 41}, down{6, 5, 4, 3, 2, 1},
      ties{2, 2, 1, 5, 5, 3}, mixed{3.1, 0.2, 5, 4.4, 1, 2};
  CHECK(spearman(x, up) == doctest::Approx(1));
  CHECK(spearman(x, down) == doctest::Approx(-1));
  CHECK(spearman(x, ties) == doctest::Approx(0.6179143806533246).epsilon(1e-12));
  CHECK(spearman(x, mixed) == doctest::Approx(-0.08571428571428573).epsilon(1e-12));
}

TEST_CASE("rank correlation: equal values have none") {
  const std::vector<double> x{1, 2, 3}, same{4, 4, 4}, one{1};
  CHECK(std::isnan(spearman(x, same)));
  CHECK(std::isnan(spearman(one, one)));
}

// From scipy.stats.spearmanr over all pairs of different seeds, the jackknife and scipy.stats.t.
TEST_CASE("rank correlation: the order of runs of two sets agrees as scipy says") {
  const auto rows = [](std::vector<std::vector<double>> values) {
    std::vector<normlab::SeedValues> of;
    for (const std::vector<double>& row : values)
      for (std::size_t s = 0; s < row.size(); ++s) (s == 0 ? of.emplace_back() : of.back())[s] = row[s];
    return of;
  };
  std::vector<normlab::SeedValues> a = rows({{70.1, 71.3, 69.8, 70.6},
                                             {68.2, 70.9, 69.9, 69.0},
                                             {72.5, 71.0, 72.2, 71.9},
                                             {66.0, 67.5, 66.1, 68.9},
                                             {70.0, 69.5, 71.5, 70.2}}),
                                   b = rows({{88.0, 88.9, 87.2, 88.3},
                                             {88.4, 87.1, 88.6, 87.9},
                                             {89.9, 90.2, 88.8, 89.1},
                                             {85.0, 87.5, 86.6, 86.2},
                                             {87.7, 88.2, 89.0, 88.1}});
  const auto between = normlab::order_agreement(a, b), within = normlab::order_agreement(a, a);
  CHECK(between->mean == doctest::Approx(0.6666666666666666).epsilon(1e-12));
  CHECK(*between->half_width == doctest::Approx(0.5846527186312996).epsilon(1e-9));
  CHECK(between->n == 4);
  CHECK(within->mean == doctest::Approx(0.7166666666666667).epsilon(1e-12));
  CHECK(*within->half_width == doctest::Approx(0.6560781132270695).epsilon(1e-9));
  a[1].erase(2);
  CHECK(normlab::order_agreement(a, b)->n == 3);
  a[1].erase(1);
  CHECK(!normlab::order_agreement(a, b)->half_width);
  a[1].erase(0);
  CHECK(!normlab::order_agreement(a, b));
}

TEST_CASE("rank correlation: intervals of the agreement of orders hold in 93 to 98% of simulations") {
  constexpr int kRows = 12, kRounds = 500;
  const normlab::StreamKey key = normlab::stream_key(0, "test", "orders");
  std::uint64_t drawn = 0;
  // Rows whose true values lie as far apart as runs of one row, and whose two orders agree in part.
  std::vector<double> first, second;
  for (int r = 0; r < kRows; ++r) {
    first.push_back(normlab::normal(key, drawn++));
    second.push_back(0.6 * first.back() + 0.8 * normlab::normal(key, drawn++));
  }
  const auto runs = [&](const std::vector<double>& truth, std::uint64_t seeds) {
    std::vector<normlab::SeedValues> rows(kRows);
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::uint64_t s = 0; s < seeds; ++s) rows[r][s] = truth[r] + normlab::normal(key, drawn++);
    return rows;
  };
  const double between = normlab::order_agreement(runs(first, 200), runs(second, 200))->mean;
  const std::vector<normlab::SeedValues> many = runs(first, 200);
  const double within = normlab::order_agreement(many, many)->mean;
  for (const std::uint64_t seeds : {3, 5, 10}) {
    int held_between = 0, held_within = 0;
    for (int round = 0; round < kRounds; ++round) {
      const std::vector<normlab::SeedValues> a = runs(first, seeds), b = runs(second, seeds);
      const auto of_two = normlab::order_agreement(a, b), of_one = normlab::order_agreement(a, a);
      held_between += std::abs(of_two->mean - between) <= *of_two->half_width;
      held_within += std::abs(of_one->mean - within) <= *of_one->half_width;
    }
    CAPTURE(seeds);
    for (const int held : {held_between, held_within}) {
      CHECK(held >= 0.93 * kRounds);
      CHECK(held <= 0.98 * kRounds);
    }
  }
}
