#include "experiments/lab/metrics/saturation.h"

#include <cmath>
#include <vector>

namespace normlab {

double saturated(SaturationShape shape, double x) { return shape == SaturationShape::erf ? std::erf(x) : std::tanh(x); }

Saturation fit_saturation(std::span<const double> in, std::span<const double> out, SaturationShape shape) {
  std::vector<double> x, y;
  double squares = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!std::isfinite(in[i]) || !std::isfinite(out[i])) continue;
    x.push_back(in[i]);
    y.push_back(out[i]);
    squares += in[i] * in[i];
  }
  if (x.size() < 3 || squares == 0) return {};
  const double size = std::sqrt(squares / double(x.size()));

  // For a given slope the best scale is linear, which leaves a search in one variable.
  double scale = 0;
  const auto error = [&](double log_curvature) {
    const double slope = std::exp(log_curvature) / size;
    double ff = 0, fy = 0, yy = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double f = saturated(shape, slope * x[i]);
      ff += f * f;
      fy += f * y[i];
      yy += y[i] * y[i];
    }
    scale = fy / ff;
    return yy - fy * fy / ff;
  };
  // The error may have several minima: a grid finds the lowest, and the golden section refines it.
  constexpr int kGrid = 60;
  const double low = std::log(0.01), high = std::log(100.0), step = (high - low) / kGrid;
  int best = 0;
  double least = error(low);
  for (int k = 1; k <= kGrid; ++k)
    if (const double e = error(low + k * step); e < least) least = e, best = k;
  double from = low + (best - 1) * step, to = low + (best + 1) * step;
  constexpr double kGolden = 0.6180339887498949;
  for (int round = 0; round < 40; ++round) {
    const double a = to - kGolden * (to - from), b = from + kGolden * (to - from);
    if (error(a) < error(b))
      to = b;
    else
      from = a;
  }
  const double log_curvature = (from + to) / 2;
  error(log_curvature);
  return {std::exp(log_curvature) / size, scale, std::exp(log_curvature)};
}

}  // namespace normlab
