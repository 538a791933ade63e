#include "cuda/gelu.cuh"

#include <doctest/doctest.h>

#include <cmath>

using namespace normlab;
using namespace normlab::cuda_emulated;

TEST_CASE("cuda: the GELU of bf16 results is the formula's to its tails") {
  double worst_value = 0, worst_slope = 0;
  for (double x = -12; x <= 12; x += 1.0 / 64) {
    const double phi = 0.5 * std::erfc(-x * std::sqrt(0.5)), density = std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
    const ValueAndSlope<float> near = gelu_near(float(x));
    worst_value = std::max(worst_value, std::abs(near.value - x * phi) / (std::abs(x * phi) + 1e-30));
    worst_slope = std::max(worst_slope, std::abs(near.slope - (phi + x * density)) / (phi + std::abs(x) * density));
  }
  CHECK(worst_value < 1.5e-5);
  CHECK(worst_slope < 1.5e-5);
}
