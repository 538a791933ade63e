#include "core/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/error.h"

using namespace normlab;

namespace {

StreamKey words(std::uint32_t low, std::uint32_t high) { return {{low, high}}; }

double relative(double value, double expected) { return std::abs(value - expected) / std::abs(expected); }

}  // namespace

TEST_CASE("random: stream keys are fixed for good") {  // computed by an implementation of its own, in Python
  CHECK(stream_key(0, "init", "stem.weight") == words(0x113a5806, 0x6c896620));
  CHECK(stream_key(1, "init", "stem.weight") == words(0xa558b334, 0x22b5d638));
  CHECK(stream_key(0, "order", "") == words(0xef4ba5bb, 0xdb9380c7));
  CHECK(stream_key(~std::uint64_t{0}, "augment", "train-000000/000000") == words(0x9bc54bfa, 0x818a4916));
  CHECK_FALSE(stream_key(0, "ab", "c") == stream_key(0, "a", "bc"));  // the zero byte between them
}

TEST_CASE("random: a draw is Philox at {position, step}, halves low first") {
  const StreamKey key{{0xa4093822, 0x299f31d0}};
  CHECK(draw(key, 0x85a308d3243f6a88, 0x0370734413198a2e)[0] == 0xd16cfe09);
  CHECK(draw(key, 1, 0) != draw(key, 0, 1));
}

TEST_CASE("random: uniform is never 0 or 1 and symmetric") {
  CHECK(uniform(0, 0) == 0x1p-53);
  CHECK(uniform(~0u, ~0u) == 1 - 0x1p-53);
  CHECK(uniform(0x80000000u, 0) == 0.5 + 0x1p-53);
  CHECK(1 - uniform(0x12345678u, 0x9abcdef0u) == uniform(~0x12345678u, ~0x9abcdef0u));
}

TEST_CASE("random: normal quantile against 40-digit references") {
  const std::pair<double, double> table[] = {
      {1e-300, -37.047096299361199237}, {1e-20, -9.2623400897984075796}, {1e-10, -6.3613409024040561991},
      {1e-5, -4.2648907939228246102},   {0.001, -3.0902323061678135354}, {0.025, -1.9599639845400542118},
      {0.07, -1.4757910281791706856},   {0.08, -1.4050715603096325447},  {0.1, -1.2815515655446004353},
      {0.25, -0.6744897501960817432},   {0.3, -0.52440051270804081597},  {0.4, -0.25334710313579974132}};
  for (const auto& [p, x] : table) {
    CAPTURE(p);
    CHECK(relative(normal_quantile(p), x) < 1e-14);
  }
  CHECK(normal_quantile(0.5) == 0);
  for (const double p : {0x1p-10, 0.0625, 0.25, 0.375}) CHECK(normal_quantile(1 - p) == -normal_quantile(p));
  CHECK(normal_quantile(0) == -INFINITY);
  CHECK(normal_quantile(1) == INFINITY);
  CHECK(std::isnan(normal_quantile(1.5)));
}

TEST_CASE("random: normal distribution function") {
  const std::pair<double, double> table[] = {{-8, 6.2209605742717841235e-16},
                                             {-2, 0.0227501319481792072},
                                             {-1, 0.15865525393145705141},
                                             {0.5, 0.69146246127401310364},
                                             {3, 0.99865010196836990547}};
  for (const auto& [x, p] : table) CHECK(relative(normal_cdf(x), p) < 1e-14);
}

TEST_CASE("random: moments of normals, whole and cut") {
  const StreamKey key = stream_key(3, "init", "w");
  const int n = 200000;
  double mean = 0, square = 0, cut_square = 0, cut_max = 0, tail_min = 10;
  for (int i = 0; i < n; ++i) {
    const double x = normal(key, i), cut = truncated_normal(key, i, -2, 2);
    mean += x / n;
    square += x * x / n;
    cut_square += cut * cut / n;
    cut_max = std::max(cut_max, std::abs(cut));
    tail_min = std::min(tail_min, truncated_normal(key, i, 9, 10));
  }
  CHECK(std::abs(mean) < 4 / std::sqrt(n));
  CHECK(std::abs(square - 1) < 4 * std::sqrt(2.0 / n));
  CHECK(std::abs(std::sqrt(cut_square) - 0.87962566103423978) < 0.004);  // the factor JAX divides by
  CHECK(cut_max <= 2);
  CHECK(cut_max > 1.99);
  CHECK(tail_min >= 9);
  CHECK(tail_min < 9.001);
}

TEST_CASE("random: drops are an integer comparison with the asked rate") {
  CHECK(drop_threshold(0) == 0);
  CHECK(keep(0, drop_threshold(0)));
  CHECK(drop_threshold(0.5) == 0x80000000u);
  CHECK_FALSE(keep(0x7fffffffu, drop_threshold(0.5)));
  CHECK(keep(0x80000000u, drop_threshold(0.5)));
  CHECK(drop_threshold(0.1) == 429496730u);  // 429496729.6
  CHECK(drop_threshold(1 - 1e-12) == ~0u);
  for (const double bad : {1.0, -0.1, std::nan("")}) CHECK_THROWS_AS(drop_threshold(bad), InputError);
}

TEST_CASE("random: below stays below and reaches both ends") {
  CHECK(below(0, 7) == 0);
  CHECK(below(~0u, 7) == 6);
  CHECK(below(~0u, ~0u) == ~0u - 1);
  CHECK(below(0x80000000u, 9) == 4);
}

TEST_CASE("random: a permutation holds every index once, and another in the next epoch") {
  const StreamKey key = stream_key(0, "order", "");
  const auto first = permutation(key, 1000, 0), second = permutation(key, 1000, 1);
  CHECK(std::set<std::int64_t>(first.begin(), first.end()).size() == 1000);
  CHECK(*std::max_element(first.begin(), first.end()) == 999);
  CHECK(first != second);
  CHECK(first == permutation(key, 1000, 0));
  CHECK(permutation(key, 0, 0).empty());
  const std::vector<std::int64_t> known{0, 2, 4, 1, 3};  // by the same other implementation
  CHECK(permutation(key, 5, 0) == known);
}
