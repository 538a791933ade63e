// Statistics of features for probes, in double and with two passes for each.
#include "cuda/cuda_backend.h"
#include "cuda/kernel.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;

template <class T>
__device__ double wide(T value) {
  return double(Acc<T>(value));
}

/// sums [images, 2]: one block per image, one warp per position. Each warp takes its positions in order, and the warps'
/// sums are added in order.
template <class T>
__global__ void over_channels(std::int64_t positions, std::int64_t cols, const T* x, double* sums) {
  NORMLAB_SHARED(double, of_warp, 2 * kWarps);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  x += std::int64_t{blockIdx.x} * positions * cols;
  double means = 0, variances = 0;
  for (std::int64_t p = warp; p < positions; p += kWarps) {
    const T* row = x + p * cols;
    const double mean = warp_sum_of<double>(cols, [&](std::int64_t c) { return wide(row[c]); }) / double(cols);
    const double squares = warp_sum_of<double>(cols, [&](std::int64_t c) {
      const double from_mean = wide(row[c]) - mean;
      return from_mean * from_mean;
    });
    means += mean * mean;
    variances += squares / double(cols);
  }
  if (lane == 0) {
    of_warp[2 * warp] = means;
    of_warp[2 * warp + 1] = variances;
  }
  __syncthreads();
  if (threadIdx.x < 2) {
    double total = 0;
    for (int w = 0; w < kWarps; ++w) total += of_warp[2 * w + static_cast<int>(threadIdx.x)];
    sums[2 * std::int64_t{blockIdx.x} + threadIdx.x] = total;
  }
}

/// channels [images, 2, cols]: one thread per channel of an image.
template <class T>
struct OverPositions {
  std::int64_t positions, cols;
  const T* x;
  double* channels;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t image = i / cols, c = i % cols;
    const T* column = x + image * positions * cols + c;
    double sum = 0, squares = 0;
    for (std::int64_t p = 0; p < positions; ++p) sum += wide(column[p * cols]);
    const double mean = sum / double(positions);
    for (std::int64_t p = 0; p < positions; ++p) {
      const double from_mean = wide(column[p * cols]) - mean;
      squares += from_mean * from_mean;
    }
    channels[2 * image * cols + c] = mean;
    channels[(2 * image + 1) * cols + c] = squares;
  }
};

}  // namespace

void CudaBackend::feature_statistics(TokenDims d, Tensor x, Tensor of_images, Tensor of_channels) {
  for_type("feature_statistics", x.dtype(), [&]<class T>(Type<T>) {
    launch("feature_statistics", over_channels<T>, {d.batch, kThreads}, stream_, d.tokens, d.cols, x.data<T>(),
           of_images.data<double>());
    each_element("feature_statistics", d.batch * d.cols, stream_,
                 OverPositions<T>{d.tokens, d.cols, x.data<T>(), of_channels.data<double>()});
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
