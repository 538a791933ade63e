// How a GPU runs the kernels that all devices share: a row per warp, and vectors of values.
#include "core/shared/losses.h"
#include "core/shared/maps.h"
#include "core/shared/rotary.h"
#include "cuda/map.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// A row's loops and sums, on the lanes of a warp.
struct WarpRow {
  static constexpr bool kAddsTargets = false;
  __device__ bool leads() const { return threadIdx.x % kWarp == 0; }
  template <class F>
  __device__ void each(std::int64_t n, F&& f) const {
    for (std::int64_t c = threadIdx.x % kWarp; c < n; c += kWarp) f(c);
  }
  template <class A, class F>
  __device__ A sum(std::int64_t n, F&& term) const {
    return warp_sum_of<A>(n, term);
  }
  template <class A, class F>
  __device__ A sum_in_order(std::int64_t n, F&& term) const {
    return warp_sum_of<A>(n, term);
  }
  template <class F>
  __device__ auto max(std::int64_t n, F&& value) const {
    auto top = value(0);
    each(n, [&](std::int64_t c) { top = value(c) > top ? value(c) : top; });
    return warp_max(top);
  }
  template <class T, class A>
  __device__ void put(T& to, A value, bool add) const {
    NORMLAB_CUDA_NAMESPACE::put(to, value, add);
  }
};

template <class F>
__global__ void row_kernel(std::int64_t rows, F f) {
  const std::int64_t r = row_of_warp();
  if (r < rows) f(WarpRow(), r);  // a whole warp
}

}  // namespace

/// A kernel cannot throw: it gives NaN for a label out of range.
void CudaBackend::require_classes(const char*, const LossDims&, const Tensor&) {}

template <class F>
void CudaBackend::each_row(const char* op, std::int64_t rows, const F& f) {
  launch(op, row_kernel<F>, warp_a_row(rows), stream_, rows, f);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE

template class normlab::SharedKernels<normlab::NORMLAB_CUDA_NAMESPACE::CudaBackend>;
