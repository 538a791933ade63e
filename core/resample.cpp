#include "core/resample.h"

#include <algorithm>
#include <cmath>

#include "core/resample_row.h"

namespace normlab {

std::int64_t resample_taps(Resampling method, std::int64_t in, std::int64_t out) {
  const ResampleKernel kernel = ResampleKernel::of(method);
  const double width = std::ceil(2.0 * kernel.support * kernel.stretch(in, out));
  return std::min(in, static_cast<std::int64_t>(width) + (kernel.antialias ? 1 : 0));
}

void resample_weights(Resampling method, std::int64_t in, std::int64_t out, std::int64_t* first, double* weights) {
  const std::int64_t taps = resample_taps(method, in, out);
  for (std::int64_t o = 0; o < out; ++o) first[o] = resample_row(method, in, out, taps, o, weights + o * taps);
}

}  // namespace normlab
