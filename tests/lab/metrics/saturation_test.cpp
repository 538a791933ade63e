#include "experiments/lab/metrics/saturation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace normlab;

namespace {

struct Points {
  std::vector<double> in, out;
};

Points made(SaturationShape shape, double slope, double scale) {
  Points p;
  for (int k = -50; k <= 50; ++k) {
    p.in.push_back(0.1 * k);
    p.out.push_back(scale * saturated(shape, slope * 0.1 * k));
  }
  return p;
}

double root_mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum / double(values.size()));
}

}  // namespace

TEST_CASE("saturation: the slope and scale of a tanh and of an erf are found") {
  for (const SaturationShape shape : {SaturationShape::tanh, SaturationShape::erf})
    for (const double slope : {0.05, 0.5, 3.0}) {
      const Points p = made(shape, slope, 1.7);
      const Saturation fit = fit_saturation(p.in, p.out, shape);
      CAPTURE(slope);
      CHECK(fit.slope == doctest::Approx(slope).epsilon(1e-4));
      CHECK(fit.scale == doctest::Approx(1.7).epsilon(1e-4));
      CHECK(fit.curvature == doctest::Approx(slope * root_mean_square(p.in)).epsilon(1e-4));
    }
}

TEST_CASE("saturation: a line has the least curvature, and its slope is right") {
  Points p;
  for (int k = 1; k < 20; ++k) {
    p.in.push_back(k);
    p.out.push_back(-2.5 * k);
  }
  const Saturation fit = fit_saturation(p.in, p.out, SaturationShape::tanh);
  CHECK(fit.curvature < 0.011);
  CHECK(fit.slope * fit.scale == doctest::Approx(-2.5).epsilon(1e-3));
}

TEST_CASE("saturation: without points there is nothing to fit") {
  CHECK(fit_saturation({}, {}, SaturationShape::tanh).curvature == 0);
  const std::vector<double> zeros{0, 0, 0, 0}, nan(4, std::numeric_limits<double>::quiet_NaN()), x{1, 2, 3, 4};
  CHECK(fit_saturation(zeros, x, SaturationShape::tanh).curvature == 0);
  CHECK(fit_saturation(x, nan, SaturationShape::erf).curvature == 0);
}
