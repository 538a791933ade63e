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

constexpr int kDraws = 200000;
StreamKey weights_key() { return stream_key(3, "init", "w"); }
StreamKey order_key() { return stream_key(0, "order", ""); }

}  // namespace

TEST_CASE("random: stream keys are fixed for good") {  // computed by an implementation of its own, in Python
  CHECK(stream_key(0, "init", "stem.weight") == words(0x113a5806, 0x6c896620));
  CHECK(stream_key(1, "init", "stem.weight") == words(0xa558b334, 0x22b5d638));
  CHECK(stream_key(0, "order", "") == words(0xef4ba5bb, 0xdb9380c7));
  CHECK(stream_key(~std::uint64_t{0}, "augment", "train-000000/000000") == words(0x9bc54bfa, 0x818a4916));
  CHECK_FALSE(stream_key(0, "ab", "c") == stream_key(0, "a", "bc"));  // the zero byte between them
}

TEST_CASE("random: a draw is Philox of its position and step") {
  const StreamKey key{{0xa4093822, 0x299f31d0}};
  CHECK(draw(key, 0x85a308d3243f6a88, 0x0370734413198a2e)[0] == 0xd16cfe09);
  CHECK(draw(key, 1, 0) != draw(key, 0, 1));
}

TEST_CASE("random: uniform lies strictly between 0 and 1") {
  CHECK(uniform(0, 0) == 0x1p-53);
  CHECK(uniform(~0u, ~0u) == 1 - 0x1p-53);
  CHECK(uniform(0x80000000u, 0) == 0.5 + 0x1p-53);
}

TEST_CASE("random: uniform is symmetric about a half") {
  CHECK(1 - uniform(0x12345678u, 0x9abcdef0u) == uniform(~0x12345678u, ~0x9abcdef0u));
}

TEST_CASE("random: the normal quantile agrees with 40-digit references") {
  const std::pair<double, double> table[] = {
      {1e-300, -37.047096299361199237}, {1e-20, -9.2623400897984075796}, {1e-10, -6.3613409024040561991},
      {1e-5, -4.2648907939228246102},   {0.001, -3.0902323061678135354}, {0.025, -1.9599639845400542118},
      {0.07, -1.4757910281791706856},   {0.08, -1.4050715603096325447},  {0.1, -1.2815515655446004353},
      {0.25, -0.6744897501960817432},   {0.3, -0.52440051270804081597},  {0.4, -0.25334710313579974132}};
  for (const auto& row : table) {
    CAPTURE(row.first);
    CHECK(relative(normal_quantile(row.first), row.second) < 1e-14);
  }
}

TEST_CASE("random: the normal quantile is symmetric about a half") {
  CHECK(normal_quantile(0.5) == 0);
  for (const double p : {0x1p-10, 0.0625, 0.25, 0.375}) CHECK(normal_quantile(1 - p) == -normal_quantile(p));
}

TEST_CASE("random: the normal quantile of 0 and of 1 is infinite") {
  CHECK(normal_quantile(0) == -INFINITY);
  CHECK(normal_quantile(1) == INFINITY);
}

TEST_CASE("random: the normal quantile of no probability is NaN") { CHECK(std::isnan(normal_quantile(1.5))); }

TEST_CASE("random: the normal distribution function agrees with references") {
  const std::pair<double, double> table[] = {{-8, 6.2209605742717841235e-16},
                                             {-2, 0.0227501319481792072},
                                             {-1, 0.15865525393145705141},
                                             {0.5, 0.69146246127401310364},
                                             {3, 0.99865010196836990547}};
  for (const auto& [x, p] : table) CHECK(relative(normal_cdf(x), p) < 1e-14);
}

TEST_CASE("random: normals have mean 0 and variance 1") {
  const StreamKey key = weights_key();
  double mean = 0, square = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = normal(key, i);
    mean += x / kDraws;
    square += x * x / kDraws;
  }
  CHECK(std::abs(mean) < 4 / std::sqrt(kDraws));
  CHECK(std::abs(square - 1) < 4 * std::sqrt(2.0 / kDraws));
}

TEST_CASE("random: truncated normals fill their interval with the right deviation") {
  const StreamKey key = weights_key();
  double square = 0, largest = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double cut = truncated_normal(key, i, -2, 2);
    square += cut * cut / kDraws;
    largest = std::max(largest, std::abs(cut));
  }
  CHECK(std::abs(std::sqrt(square) - 0.87962566103423978) < 0.004);  // the factor JAX divides by
  CHECK(largest <= 2);
  CHECK(largest > 1.99);
}

TEST_CASE("random: normals truncated to a far tail begin at its end") {
  const StreamKey key = weights_key();
  double least = 10;
  for (int i = 0; i < kDraws; ++i) least = std::min(least, truncated_normal(key, i, 9, 10));
  CHECK(least >= 9);
  CHECK(least < 9.001);
}

TEST_CASE("random: a drop threshold is the rate as an integer") {
  CHECK(drop_threshold(0) == 0);
  CHECK(drop_threshold(0.5) == 0x80000000u);
  CHECK(drop_threshold(0.1) == 429496730u);  // 429496729.6
  CHECK(drop_threshold(1 - 1e-12) == ~0u);
}

TEST_CASE("random: words from the threshold on are kept") {
  CHECK(keep(0, drop_threshold(0)));
  CHECK_FALSE(keep(0x7fffffffu, drop_threshold(0.5)));
  CHECK(keep(0x80000000u, drop_threshold(0.5)));
}

TEST_CASE("random: a drop rate outside of [0, 1) is refused") {
  CHECK_THROWS_WITH_AS(drop_threshold(1.0), "a drop rate must be in [0, 1), got 1", InputError);
  CHECK_THROWS_WITH_AS(drop_threshold(-0.1), "a drop rate must be in [0, 1), got -0.1", InputError);
  CHECK_THROWS_WITH_AS(drop_threshold(std::nan("")), "a drop rate must be in [0, 1), got nan", InputError);
}

TEST_CASE("random: below reaches both ends of its range") {
  CHECK(below(0, 7) == 0);
  CHECK(below(~0u, 7) == 6);
  CHECK(below(~0u, ~0u) == ~0u - 1);
  CHECK(below(0x80000000u, 9) == 4);
}

TEST_CASE("random: a permutation holds every index once") {
  const auto order = permutation(order_key(), 1000, 0);
  CHECK(std::set<std::int64_t>(order.begin(), order.end()).size() == 1000);
  CHECK(*std::min_element(order.begin(), order.end()) == 0);
  CHECK(*std::max_element(order.begin(), order.end()) == 999);
}

TEST_CASE("random: each epoch has another permutation") {
  CHECK(permutation(order_key(), 1000, 0) != permutation(order_key(), 1000, 1));
}

TEST_CASE("random: the permutation of an epoch is fixed for good") {
  CHECK(permutation(order_key(), 1000, 0) == permutation(order_key(), 1000, 0));
  const std::vector<std::int64_t> known{0, 2, 4, 1, 3};  // by the same other implementation
  CHECK(permutation(order_key(), 5, 0) == known);
}

TEST_CASE("random: a permutation of nothing is empty") { CHECK(permutation(order_key(), 0, 0).empty()); }
