// Products of all shapes against sums in double: ragged edges, both orders of both factors, bias, addition, OpenBLAS's
// share.
#include "core/cpu/product.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/random.h"

using namespace normlab;
using namespace normlab::cpu;

namespace {

template <class T>
std::vector<T> random_values(std::int64_t n, const char* name) {
  std::vector<T> values(static_cast<std::size_t>(n));
  const StreamKey key = stream_key(1, "test", name);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = T(normal(key, i));
  return values;
}

struct Case {
  std::int64_t m, n, k;
  bool ta, tb, add, bias, plus = false;
};
constexpr Case kWide{1100, 1000, 3, true, false, false, false};  // too large for product's own kernel

/// Largest error in units of the rounding of a sum of k products. Rows of C are n + 3 apart: what lies between must
/// stay.
template <class T>
double worst_error(const Case& c) {
  const auto a = random_values<T>(c.m * c.k, "a"), b = random_values<T>(c.k * c.n, "b"),
             bias = random_values<T>(c.n, "bias"), before = random_values<T>(c.m * (c.n + 3), "c");
  const auto plus = random_values<T>(c.m * (c.n + 3), "plus");
  std::vector<T> out = before;
  std::vector<int> done(static_cast<std::size_t>(c.m * c.n));
  product<T>({c.m, c.n, c.k, c.ta ? transposed(a.data(), c.m) : plain(a.data(), c.k),
              c.tb ? transposed(b.data(), c.k) : plain(b.data(), c.n), out.data(), c.n + 3, c.add, T(0.5),
              c.bias ? bias.data() : nullptr, c.plus ? plus.data() : nullptr},
             [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
               for (std::int64_t i = row; i < row + rows; ++i)
                 for (std::int64_t j = column; j < column + columns; ++j) ++done[static_cast<std::size_t>(i * c.n + j)];
             });
  double worst = 0;
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t j = 0; j < c.n + 3; ++j) {
      const auto at = static_cast<std::size_t>(i * (c.n + 3) + j);
      if (j >= c.n) {
        if (out[at] != before[at]) return INFINITY;
        continue;
      }
      double sum = 0, size = 1;
      for (std::int64_t p = 0; p < c.k; ++p) {
        const double term = double(a[static_cast<std::size_t>(c.ta ? p * c.m + i : i * c.k + p)]) *
                            double(b[static_cast<std::size_t>(c.tb ? j * c.k + p : p * c.n + j)]);
        sum += term;
        size += std::abs(term);
      }
      const double expected = 0.5 * sum + (c.bias ? double(bias[static_cast<std::size_t>(j)]) : 0) +
                              (c.add ? double(before[at]) : 0) + (c.plus ? double(plus[at]) : 0);
      worst = std::max(worst, std::abs(double(out[at]) - expected) / size);
      if (done[static_cast<std::size_t>(i * c.n + j)] != 1) return INFINITY;
    }
  return worst / double(std::numeric_limits<T>::epsilon());
}

}  // namespace

TEST_CASE("product: every form is within rounding of sums in double") {
  const bool both[] = {false, true};
  double worst_float = 0, worst_double = 0;
  for (const std::int64_t m : {1, 3, 14, 15, 29})
    for (const std::int64_t n : {1, 7, 16, 17, 32, 65})
      for (const std::int64_t k : {1, 5, 16, 37, 150})
        for (const bool ta : both)
          for (const bool tb : both)
            for (const bool add : both)
              for (const bool bias : both) {
                const Case c{m, n, k, ta, tb, add, bias, !add && (m + n) % 2 == 0};
                worst_float = std::max(worst_float, worst_error<float>(c));
                worst_double = std::max(worst_double, worst_error<double>(c));
              }
  CHECK(worst_float < 4);
  CHECK(worst_double < 8);  // the reference itself is in double
}

TEST_CASE("product: sums over several blocks are within rounding") {
  for (const bool add : {false, true})
    for (const bool bias : {false, true}) CHECK(worst_error<float>({20, 40, 1700, false, true, add, bias}) < 8);
}

TEST_CASE("product: OpenBLAS computes products above the limit") {
  CHECK(!own_product<float>({kWide.m, kWide.n, kWide.k, {nullptr, 1, kWide.m}, {nullptr, kWide.n, 1}, nullptr, 0}));
}

TEST_CASE("product: products of OpenBLAS are within rounding of sums in double") {
  for (const bool bias : {false, true}) {
    Case wide = kWide;
    wide.bias = bias;
    for (const bool add : {false, true}) {
      wide.add = add;
      CHECK(worst_error<float>(wide) < 4);
    }
    wide.add = false, wide.plus = true;
    CHECK(worst_error<float>(wide) < 4);
  }
}

TEST_CASE("product: a square of registers is transposed") {
  const auto from = random_values<float>(20 * 20, "square");
  std::vector<float> to(400, 0);
  transpose_square(from.data(), 20, to.data(), 20);
  for (std::int64_t i = 0; i < kLanes<float>; ++i)
    for (std::int64_t j = 0; j < kLanes<float>; ++j)
      CHECK(to[static_cast<std::size_t>(i * 20 + j)] == from[static_cast<std::size_t>(j * 20 + i)]);
}
