#include "core/resample.h"

#include <algorithm>
#include <cmath>

namespace normlab {
namespace {

/// A kernel that is zero from `support` on; antialiased it is stretched to the width of a pixel of the result.
struct Kernel {
  double support, a;
  bool antialias;

  /// Linear: 1 - |x|. Cubic convolution (Keys 1981), whose slope at 1 is a.
  double operator()(double x) const {
    x = std::abs(x);
    if (x >= support) return 0.0;
    if (support == 1.0) return 1.0 - x;
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return ((x - 5.0) * x + 8.0) * x * a - 4.0 * a;
  }
};

Kernel kernel_of(Resampling how) {
  if (how == Resampling::bicubic) return {2.0, -0.75, false};
  if (how == Resampling::bicubic_antialias) return {2.0, -0.5, true};
  return {1.0, 0.0, how == Resampling::bilinear_antialias};
}

double stretch_of(const Kernel& kernel, std::int64_t in, std::int64_t out) {
  return kernel.antialias ? std::max(double(in) / double(out), 1.0) : 1.0;
}

/// Where place o of the result lies among the points of the input, point j lying at j.
double position(Resampling how, std::int64_t in, std::int64_t out, std::int64_t o) {
  if (how != Resampling::corners) return (double(o) + 0.5) * double(in) / double(out) - 0.5;
  return out > 1 ? double(o) * double(in - 1) / double(out - 1) : 0.0;
}

}  // namespace

std::int64_t resample_taps(Resampling how, std::int64_t in, std::int64_t out) {
  const Kernel kernel = kernel_of(how);
  const double width = std::ceil(2.0 * kernel.support * stretch_of(kernel, in, out));
  return std::min(in, static_cast<std::int64_t>(width) + (kernel.antialias ? 1 : 0));
}

void resample_weights(Resampling how, std::int64_t in, std::int64_t out, std::int64_t* first, double* weights) {
  const Kernel kernel = kernel_of(how);
  const double stretch = stretch_of(kernel, in, out), reach = kernel.support * stretch;
  const std::int64_t taps = resample_taps(how, in, out);
  for (std::int64_t o = 0; o < out; ++o) {
    const double at = position(how, in, out, o);
    double* row = weights + o * taps;
    std::fill_n(row, taps, 0.0);
    // Points beyond a border stand for the border itself; antialiased they are left out, hence the division by the sum.
    const auto begin = static_cast<std::int64_t>(std::floor(at - reach + 1.0));
    const auto end = static_cast<std::int64_t>(std::floor(at + reach + 1.0));
    first[o] = std::clamp(begin, std::int64_t{0}, in - taps);
    double sum = 0.0;
    for (std::int64_t j = begin; j < end; ++j) {
      if (kernel.antialias && (j < 0 || j >= in)) continue;
      const double weight = kernel((double(j) - at) / stretch);
      row[std::clamp(j, std::int64_t{0}, in - 1) - first[o]] += weight;
      sum += weight;
    }
    for (std::int64_t t = 0; t < taps; ++t) row[t] /= sum;
  }
}

}  // namespace normlab
