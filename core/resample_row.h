// One row of the tables of core/resample.h, for host and device.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/host_device.h"
#include "core/resample.h"

namespace normlab {

/// A kernel that is zero from `support` on. With antialiasing it is stretched to the width of an output pixel.
struct ResampleKernel {
  double support, a;
  bool antialias;

  NORMLAB_HOST_DEVICE static ResampleKernel of(Resampling method) {
    if (method == Resampling::bicubic) return {2.0, -0.75, false};
    if (method == Resampling::bicubic_antialias) return {2.0, -0.5, true};
    return {1.0, 0.0, method == Resampling::bilinear_antialias};
  }
  NORMLAB_HOST_DEVICE double stretch(std::int64_t in, std::int64_t out) const {
    return antialias && in > out ? double(in) / double(out) : 1.0;
  }
  /// Linear: 1 - |x|. Cubic convolution (Keys 1981) with slope a at 1.
  NORMLAB_HOST_DEVICE double operator()(double x) const {
    x = std::abs(x);
    if (x >= support) return 0.0;
    if (support == 1.0) return 1.0 - x;
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return ((x - 5.0) * x + 8.0) * x * a - 4.0 * a;
  }
};

/// The position of output o on the input grid, where point j lies at j.
NORMLAB_HOST_DEVICE inline double resample_position(Resampling method, std::int64_t in, std::int64_t out,
                                                    std::int64_t o) {
  if (method != Resampling::corners) return (double(o) + 0.5) * double(in) / double(out) - 0.5;
  return out > 1 ? double(o) * double(in - 1) / double(out - 1) : 0.0;
}

/// Fills row [taps] with the weights of output o and returns the input point of the first.
NORMLAB_HOST_DEVICE inline std::int64_t resample_row(Resampling method, std::int64_t in, std::int64_t out,
                                                     std::int64_t taps, std::int64_t o, double* row) {
  const ResampleKernel kernel = ResampleKernel::of(method);
  const double stretch = kernel.stretch(in, out), reach = kernel.support * stretch;
  const double at = resample_position(method, in, out, o);
  for (std::int64_t t = 0; t < taps; ++t) row[t] = 0.0;
  // Points beyond a border count as the border point. With antialiasing they are left out, hence the division by
  // the sum.
  const auto begin = static_cast<std::int64_t>(std::floor(at - reach + 1.0));
  const auto end = static_cast<std::int64_t>(std::floor(at + reach + 1.0));
  const std::int64_t first = std::clamp(begin, std::int64_t{0}, in - taps);
  double sum = 0.0;
  for (std::int64_t j = begin; j < end; ++j) {
    if (kernel.antialias && (j < 0 || j >= in)) continue;
    const double weight = kernel((double(j) - at) / stretch);
    row[std::clamp(j, std::int64_t{0}, in - 1) - first] += weight;
    sum += weight;
  }
  for (std::int64_t t = 0; t < taps; ++t) row[t] /= sum;
  return first;
}

}  // namespace normlab
