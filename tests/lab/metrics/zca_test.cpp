// Whitening of a sample: what it must satisfy, and samples that have none.
#include "experiments/lab/metrics/zca.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "core/error.h"

using namespace normlab;

namespace {

constexpr std::size_t kWidth = 12;

/// Rows whose neighbouring columns are correlated, with unequal variances and means.
std::vector<double> sample(std::size_t rows) {
  std::mt19937_64 engine(1);
  std::normal_distribution<double> normal;
  std::vector<double> out;
  for (std::size_t r = 0; r < rows; ++r) {
    double last = normal(engine);
    for (std::size_t c = 0; c < kWidth; ++c) {
      last = 0.9 * last + 0.2 * normal(engine);
      out.push_back(3.0 * double(c) + (1.0 + double(c % 3)) * last);
    }
  }
  return out;
}

Moments moments_of(const std::vector<double>& rows) {
  Moments moments(kWidth);
  const auto half = rows.begin() + std::ptrdiff_t(kWidth * (rows.size() / kWidth / 3));
  moments.add({rows.begin(), half});
  moments.add({half, rows.end()});
  return moments;
}

}  // namespace

TEST_CASE("zca: whitened columns are uncorrelated and have variance 1") {
  const std::vector<double> rows = sample(500);
  const Moments moments = moments_of(rows);
  const std::vector<double> mean = moments.mean(), w = zca(moments.covariance(), kWidth, 1e-9);
  Moments whitened(kWidth);
  std::vector<double> out(rows.size());
  for (std::size_t r = 0; r < rows.size() / kWidth; ++r)
    for (std::size_t i = 0; i < kWidth; ++i)
      for (std::size_t k = 0; k < kWidth; ++k)
        out[r * kWidth + i] += w[i * kWidth + k] * (rows[r * kWidth + k] - mean[k]);
  whitened.add(out);
  const std::vector<double> covariance = whitened.covariance();
  for (std::size_t i = 0; i < kWidth; ++i) {
    CHECK(whitened.mean()[i] == doctest::Approx(0).epsilon(1e-9));
    for (std::size_t k = 0; k < kWidth; ++k) {
      CHECK(std::abs(covariance[i * kWidth + k] - (i == k ? 1.0 : 0.0)) < 1e-6);
      CHECK(std::abs(w[i * kWidth + k] - w[k * kWidth + i]) < 1e-8);  // of all such maps, the symmetric one
    }
  }
}

TEST_CASE("zca: eps is added to the variances") {
  std::vector<double> diagonal(kWidth * kWidth);
  for (std::size_t i = 0; i < kWidth; ++i) diagonal[i * kWidth + i] = double(i);
  const std::vector<double> w = zca(diagonal, kWidth, 0.25);
  for (std::size_t i = 0; i < kWidth; ++i)
    CHECK(w[i * kWidth + i] == doctest::Approx(1 / std::sqrt(double(i) + 0.25)).epsilon(1e-9));
}

TEST_CASE("zca: refuses a covariance that has no inverse root") {
  CHECK_THROWS_WITH_AS(zca(std::vector<double>(kWidth * kWidth, 1.0), kWidth, 1e-30),
                       "whiten: eps 1e-30 is too small: the pixels of these patches are nearly dependent", InputError);
  CHECK_THROWS_AS(zca(std::vector<double>(kWidth * kWidth, std::nan("")), kWidth, 1e-5), InputError);
}
