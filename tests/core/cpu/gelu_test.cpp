// GELU and its slope in float against the C library's double functions.
#include "core/cpu/gelu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace normlab;
using namespace normlab::cpu;

namespace {
double phi(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }
double Phi(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

/// 37 values from -5 on: whole vectors and a part of one.
std::vector<float> steps() {
  std::vector<float> x;
  for (int i = 0; i < 37; ++i) x.push_back(float(i) * 0.31f - 5.0f);
  return x;
}
}  // namespace

TEST_CASE("gelu: the erf form in float keeps its digits in both tails") {
  std::vector<float> x, y, slope;
  for (double v = -13; v <= 13; v += 0.00137) x.push_back(float(v));
  x.push_back(1e-30f), x.push_back(-1e-20f), x.push_back(0.0f), x.push_back(300.0f), x.push_back(-300.0f);
  y.resize(x.size()), slope.resize(x.size());
  gelu_values(GeluForm::erf, std::int64_t(x.size()), x.data(), y.data(), slope.data());
  double near = 0, far = 0, rise = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], expected = v * Phi(v);
    const double off = std::abs(double(y[i]) - expected);
    if (std::abs(v) < 5)
      near = std::max(near, expected == 0 ? off : off / std::abs(expected));
    else
      far = std::max(far, off / std::max(1.0, std::abs(expected)));
    rise = std::max(rise, std::abs(double(slope[i]) - (Phi(v) + v * phi(v))));
  }
  CHECK(near < 1.5e-6);
  CHECK(far < 2e-7);
  CHECK(rise < 2.5e-7);
}

TEST_CASE("gelu: the tanh form in float follows its formula") {
  for (float v = -9; v < 9; v += 0.0137f) {
    float y = 0, slope = 0;
    gelu_values(GeluForm::tanh, 1, &v, &y, &slope);
    const double x = v, root = std::sqrt(2 / M_PI), t = std::tanh(root * (x + 0.044715 * x * x * x));
    CHECK(std::abs(double(y) - 0.5 * x * (1 + t)) <= 5e-7 * std::max(1.0, std::abs(x)));
    const double rise = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
    CHECK(std::abs(double(slope) - rise) <= 5e-6);
  }
}

TEST_CASE("gelu: far from zero both forms give the argument or zero") {
  for (const GeluForm form : {GeluForm::erf, GeluForm::tanh}) {
    const float far[] = {1e12f, -1e12f};
    float y[2], slope[2];
    gelu_values(form, 2, far, y, slope);
    CHECK(y[0] == 1e12f);
    CHECK(std::abs(y[1]) < 1e-20f);
  }
}

TEST_CASE("gelu: a value does not depend on its place") {
  const std::vector<float> x = steps();
  std::vector<float> y(x.size()), slope(x.size());
  gelu_values(GeluForm::erf, std::int64_t(x.size()), x.data(), y.data(), slope.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    float alone = 0;
    gelu_values(GeluForm::erf, 1, &x[i], &alone, nullptr);
    CHECK(alone == y[i]);
  }
}

TEST_CASE("gelu: values computed in place and without slope are the same") {
  std::vector<float> x = steps(), y(x.size()), slope(x.size());
  gelu_values(GeluForm::erf, std::int64_t(x.size()), x.data(), y.data(), slope.data());
  gelu_values(GeluForm::erf, std::int64_t(x.size()), x.data(), x.data(), nullptr);
  CHECK(x == y);
}

TEST_CASE("gelu: NaN stays NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float y = 0, slope = 0;
  gelu_values(GeluForm::erf, 1, &nan, &y, &slope);
  CHECK(std::isnan(y));
  CHECK(std::isnan(slope));
}
