#include "core/resample.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "autograd/randn.h"
#include "core/dtype.h"
#include "tests/devices.h"

using namespace normlab;

namespace {

constexpr Resampling kAll[] = {Resampling::bilinear, Resampling::bilinear_antialias, Resampling::corners,
                               Resampling::bicubic, Resampling::bicubic_antialias};

/// The weights as a whole matrix [out, in].
std::vector<std::vector<double>> matrix(Resampling how, std::int64_t in, std::int64_t out) {
  const std::int64_t taps = resample_taps(how, in, out);
  REQUIRE(taps >= 1);
  REQUIRE(taps <= in);
  std::vector<std::int64_t> first(static_cast<std::size_t>(out));
  std::vector<double> weights(static_cast<std::size_t>(out * taps));
  resample_weights(how, in, out, first.data(), weights.data());
  std::vector<std::vector<double>> rows;
  for (std::size_t o = 0; o < first.size(); ++o) {
    REQUIRE(first[o] >= 0);
    REQUIRE(first[o] + taps <= in);
    auto& row = rows.emplace_back(static_cast<std::size_t>(in), 0.0);
    for (std::int64_t t = 0; t < taps; ++t)
      row[static_cast<std::size_t>(first[o] + t)] =
          weights[o * static_cast<std::size_t>(taps) + static_cast<std::size_t>(t)];
  }
  return rows;
}

void check_row(const std::vector<double>& row, const std::vector<double>& expected) {
  REQUIRE(row.size() == expected.size());
  for (std::size_t j = 0; j < row.size(); ++j) CHECK(row[j] == doctest::Approx(expected[j]).epsilon(1e-14));
}

}  // namespace

TEST_CASE("resample: the weights of each row add up to one") {
  for (const Resampling how : kAll)
    for (std::int64_t in = 1; in <= 17; ++in)
      for (const std::int64_t out : {1, 2, 3, 5, 8, 13, 16, 40}) {
        CAPTURE(to_string(how));
        CAPTURE(in);
        CAPTURE(out);
        for (const auto& row : matrix(how, in, out)) {
          double sum = 0.0;
          for (const double weight : row) sum += weight;
          CHECK(std::abs(sum - 1.0) < 1e-14);
        }
      }
}

TEST_CASE("resample: equal sizes change nothing") {
  for (const Resampling how : kAll)
    for (std::int64_t n = 1; n <= 9; ++n) {
      const auto rows = matrix(how, n, n);
      for (std::size_t o = 0; o < rows.size(); ++o)
        for (std::size_t j = 0; j < rows.size(); ++j) CHECK(rows[o][j] == (o == j ? 1.0 : 0.0));
    }
}

TEST_CASE("resample: rows equal those worked out by hand") {
  check_row(matrix(Resampling::bilinear, 2, 4)[0], {1, 0});  // half a pixel beyond the border
  check_row(matrix(Resampling::bilinear, 2, 4)[1], {0.75, 0.25});
  check_row(matrix(Resampling::bilinear, 4, 2)[1], {0, 0, 0.5, 0.5});
  check_row(matrix(Resampling::bilinear_antialias, 4, 2)[0], {3.0 / 7, 3.0 / 7, 1.0 / 7, 0});
  check_row(matrix(Resampling::corners, 3, 5)[4], {0, 0, 1});
  check_row(matrix(Resampling::corners, 3, 5)[1], {0.5, 0.5, 0});
  check_row(matrix(Resampling::corners, 3, 1)[0], {1, 0, 0});
  // Half way between two points Keys' kernel is 0.59375 for each, and a / 8 for the points around them.
  check_row(matrix(Resampling::bicubic, 8, 4)[1], {0, -0.09375, 0.59375, 0.59375, -0.09375, 0, 0, 0});
  check_row(matrix(Resampling::bicubic, 8, 4)[0], {-0.09375 + 0.59375, 0.59375, -0.09375, 0, 0, 0, 0, 0});
  check_row(matrix(Resampling::bicubic_antialias, 2, 4)[2],  // a = -0.5 at distances 0.75 and 0.25, cut at the border
            {0.2265625 / 1.09375, 0.8671875 / 1.09375});
}

TEST_CASE("resample: a bf16 image is the float one, rounded") {
  on_each_device([] {
    Backend& backend = current_device().backend;
    Arena arena(backend.memory());
    const ResampleDims dims{2, 5, 4, 3, 7, 3, Resampling::bicubic};
    const Tensor x = randn(arena, {2, 5, 4, 3}, DType::bf16, 1), wide = arena.empty({2, 5, 4, 3}, DType::f32);
    for (std::int64_t i = 0; i < x.size(); ++i) wide.data<float>()[i] = float(x.data<bf16>()[i]);
    const Tensor y = arena.empty({2, 7, 3, 3}, DType::bf16), expected = arena.empty({2, 7, 3, 3}, DType::f32);
    backend.resample(dims, x, y);
    backend.resample(dims, wide, expected);
    backend.synchronize();
    for (std::int64_t i = 0; i < y.size(); ++i) CHECK(y.data<bf16>()[i].bits == bf16(expected.data<float>()[i]).bits);
  });
}
