// Statistics of features for probes.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;

namespace {

double square(double value) { return value * value; }

/// x [positions, cols] of one image.
template <class T>
void statistics_of(const T* x, std::int64_t positions, std::int64_t cols, double* sums, double* means) {
  // Two passes for each statistic: E[x^2] - E[x]^2 loses every digit once the mean dwarfs the spread.
  const auto wide = [](T value) { return double(Acc<T>(value)); };
  double* const deviations = means + cols;
  std::fill_n(means, 2 * cols, 0.0);
  sums[0] = sums[1] = 0.0;
  for (std::int64_t p = 0; p < positions; ++p) {
    const T* row = x + p * cols;
    double sum = 0.0, squares = 0.0;
    for (std::int64_t c = 0; c < cols; ++c) sum += wide(row[c]), means[c] += wide(row[c]);
    const double mean = sum / double(cols);
    for (std::int64_t c = 0; c < cols; ++c) squares += square(wide(row[c]) - mean);
    sums[0] += square(mean);
    sums[1] += squares / double(cols);
  }
  for (std::int64_t c = 0; c < cols; ++c) means[c] /= double(positions);
  for (std::int64_t p = 0; p < positions; ++p) {
    const T* row = x + p * cols;
    for (std::int64_t c = 0; c < cols; ++c) deviations[c] += square(wide(row[c]) - means[c]);
  }
}

}  // namespace

void CpuBackend::feature_statistics(TokenDims d, Tensor x, Tensor of_images, Tensor of_channels) {
  for_type("feature_statistics", x.dtype(), [&]<class T>(Type<T>) {
    for (std::int64_t i = 0; i < d.batch; ++i)
      statistics_of(x.data<T>() + i * d.tokens * d.cols, d.tokens, d.cols, of_images.data<double>() + 2 * i,
                    of_channels.data<double>() + 2 * i * d.cols);
  });
}

}  // namespace normlab
