// What the kernels share: element loops, sums over a warp and a block, writing or adding. Blocks consist of whole
// warps, so the mask of all lanes is always right in a warp that does not diverge.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "core/for_type.h"
#include "core/kernels.h"
#include "cuda/launch.h"

/// NORMLAB_UNROLL precedes loops over an array that must stay in registers. NORMLAB_NO_UNROLL precedes loops with a
/// large body: unrolled, they would take registers from other warps.
#ifdef __CUDACC__
#define NORMLAB_UNROLL _Pragma("unroll")
#define NORMLAB_NO_UNROLL _Pragma("unroll 1")
#else
#define NORMLAB_UNROLL
#define NORMLAB_NO_UNROLL
#endif

namespace normlab::NORMLAB_CUDA_NAMESPACE {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

inline bool adds(const Gradient& g) { return g.write == Write::add; }
constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

template <class T, class A>
__device__ void put(T& to, A value, bool add) {
  to = add ? T(Acc<T>(to) + Acc<T>(value)) : T(Acc<T>(value));
}

/// The sum over all lanes; the same bits in each.
template <class A>
__device__ A warp_sum(A value) {
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}
template <class A>
__device__ A warp_max(A value) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const A other = __shfl_xor_sync(kAllLanes, value, step);
    value = other > value ? other : value;
  }
  return value;
}

/// The sum over all threads of a block; the same bits in each. All threads must call this.
template <class A>
__device__ A block_sum(A value) {
  NORMLAB_SHARED(A, partial, kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  value = warp_sum(value);
  __syncthreads();  // no thread reads the previous sum any more
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  return warp_sum(lane < warps ? partial[lane] : A(0));
}

/// The sum of term(c) over c = 0 .. n - 1, by one warp or one block.
template <class A, class F>
__device__ A warp_sum_of(std::int64_t n, F&& term) {
  A total = 0;
  for (std::int64_t c = threadIdx.x % kWarp; c < n; c += kWarp) total += term(c);
  return warp_sum(total);
}
template <class A, class F>
__device__ A block_sum_of(std::int64_t n, F&& term) {
  A total = 0;
  for (std::int64_t c = threadIdx.x; c < n; c += blockDim.x) total += term(c);
  return block_sum(total);
}

// One warp per row: kRowThreads / kWarp rows per block.
inline constexpr int kRowThreads = 256;
/// The row of this warp. The last warps may be past the end; they must not return before a barrier.
__device__ inline std::int64_t row_of_warp() {
  return std::int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp;
}
inline Launch warp_a_row(std::int64_t rows) { return {ceil_div(rows, kRowThreads / kWarp), kRowThreads}; }

template <class F>
__global__ void element_kernel(std::int64_t n, F f) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) f(i);
}

/// Calls f(i) for i = 0 .. n - 1 in any order. F is a struct of pointers and numbers with a __device__ operator().
template <class F>
void each_element(const char* op, std::int64_t n, const Stream& stream, F f) {
  constexpr int kThreads = 256;
  constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;
  launch(op, element_kernel<F>, {ceil_div(n, kThreads) < kMostBlocks ? ceil_div(n, kThreads) : kMostBlocks, kThreads},
         stream, n, f);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
