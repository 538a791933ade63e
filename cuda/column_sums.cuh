// Sums over rows in two stages of a fixed order: gradients of biases, gains and tables. A few rows at a time are added
// in A and those sums in double, as on the CPU: a gradient whose thousands of rows cancel would otherwise drown in the
// rounding of its partial sums.
#pragma once

#include "cuda/kernel.cuh"
#include "cuda/memory.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

inline constexpr int kColumnThreads = 256;  // a warp has kWarp columns next to each other, the warps share the rows
inline constexpr int kColumnWarps = kColumnThreads / kWarp;

/// Rows that one block adds up: a function of the shape alone, so that the order of a sum is.
constexpr std::int64_t rows_of_chunk(std::int64_t rows) {
  constexpr std::int64_t kMostChunks = 256, kFewest = 64;
  return ceil_div(rows, kMostChunks) > kFewest ? ceil_div(rows, kMostChunks) : kFewest;
}

/// partial [K, chunks, cols]: the sums of `terms` over the rows of each chunk.
template <int K, class A, class F>
__global__ void column_chunks(std::int64_t rows, std::int64_t cols, std::int64_t chunk_rows, F terms, double* partial) {
  NORMLAB_SHARED(double, of_warp, K* kColumnThreads);
  const std::int64_t tiles = ceil_div(cols, kWarp), chunk = blockIdx.x / tiles, chunks = gridDim.x / tiles;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t c = blockIdx.x % tiles * kWarp + lane;
  const std::int64_t begin = chunk * chunk_rows, end = begin + chunk_rows < rows ? begin + chunk_rows : rows;
  constexpr int kRows = 8;
  double total[K] = {};
  if (c < cols)
    for (std::int64_t r = begin + warp; r < end; r += kRows * kColumnWarps) {
      A few[K] = {};
      for (int i = 0; i < kRows && r + i * kColumnWarps < end; ++i) {
        A values[K];
        terms(r + i * kColumnWarps, c, values);
        for (int k = 0; k < K; ++k) few[k] += values[k];
      }
      for (int k = 0; k < K; ++k) total[k] += double(few[k]);
    }
  for (int k = 0; k < K; ++k) of_warp[k * kColumnThreads + static_cast<int>(threadIdx.x)] = total[k];
  __syncthreads();
  if (warp == 0 && c < cols)
    for (int k = 0; k < K; ++k) {
      double sum = 0;
      for (int w = 0; w < kColumnWarps; ++w) sum += of_warp[k * kColumnThreads + w * kWarp + lane];
      partial[(k * chunks + chunk) * cols + c] = sum;
    }
}

/// The sum over the chunks of one column, which begins at `first`, in their order. They are read many ahead: the time
/// of so few values is the memory's answer and not its rate.
__device__ inline double sum_of_chunks(std::int64_t chunks, std::int64_t cols, const double* first) {
  constexpr int kAhead = 32;
  double total = 0;
  for (std::int64_t i = 0; i < chunks; i += kAhead) {
    double ahead[kAhead];
    for (int a = 0; a < kAhead; ++a) ahead[a] = i + a < chunks ? first[(i + a) * cols] : 0;
    for (int a = 0; a < kAhead; ++a) total += ahead[a];
  }
  return total;
}

/// to [cols / group] (+)= the sums over chunks and over the columns of a group, by one block each.
template <class P>
__global__ void finish_columns(std::int64_t chunks, std::int64_t cols, std::int64_t group, const double* partial, P* to,
                               bool add) {
  if (group == 1) {
    const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    put(to[c], P(sum_of_chunks(chunks, cols, partial + c)), add);
  } else {
    const std::int64_t g = blockIdx.x;
    const double total = block_sum_of<double>(
        chunks * group, [&](std::int64_t i) { return partial[i / group * cols + g * group + i % group]; });
    if (threadIdx.x == 0) put(to[g], P(total), add);
  }
}

/// The gradients in `to` (those that are wanted, of type P) get the K sums over rows that `terms` gives:
/// terms(row, column, A (&values)[K]) for every row and column. `groups[k]` columns next to each other are one value of
/// the k-th.
template <int K, class A, class P, class F>
void column_sums(const char* op, std::int64_t rows, std::int64_t cols, F terms, const Gradient (&to)[K], Buffer& buffer,
                 const Stream& stream, const std::int64_t (&groups)[K]) {
  bool wanted = false;
  for (const Gradient& g : to) wanted |= bool(g);
  if (!wanted) return;
  const std::int64_t chunk_rows = rows_of_chunk(rows), chunks = rows > 0 ? ceil_div(rows, chunk_rows) : 0;
  double* partial = buffer.get<double>(K * chunks * cols + 1);
  launch(op, column_chunks<K, A, F>, {chunks * ceil_div(cols, kWarp), kColumnThreads}, stream, rows, cols, chunk_rows,
         terms, partial);
  for (int k = 0; k < K; ++k) {
    if (!to[k]) continue;
    const std::int64_t blocks = groups[k] == 1 ? ceil_div(cols, kColumnThreads) : cols / groups[k];
    launch(op, finish_columns<P>, {blocks, kColumnThreads}, stream, chunks, cols, groups[k],
           partial + k * chunks * cols, to[k].to.template data<P>(), adds(to[k]));
  }
}
template <int K, class A, class P, class F>
void column_sums(const char* op, std::int64_t rows, std::int64_t cols, F terms, const Gradient (&to)[K], Buffer& buffer,
                 const Stream& stream) {
  std::int64_t ones[K];
  for (std::int64_t& one : ones) one = 1;
  column_sums<K, A, P>(op, rows, cols, terms, to, buffer, stream, ones);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
