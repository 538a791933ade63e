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

/// Where K sums over rows go, each [cols]; null where one is not wanted.
template <int K, class P>
struct SumsTo {
  P* to[K];
  bool add[K];
};

/// sums (+)= partial [K, chunks, cols] over chunks. The warps of a block share the chunks of kWarp columns of one sum,
/// so that few loads wait for each other.
template <int K, class P>
__global__ void finish_columns(std::int64_t chunks, std::int64_t cols, const double* partial, SumsTo<K, P> sums) {
  NORMLAB_SHARED(double, of_warp, kColumnThreads);
  const std::int64_t tiles = ceil_div(cols, kWarp), k = blockIdx.x / tiles;
  P* to = nullptr;
  bool add = false;
  NORMLAB_UNROLL
  for (int i = 0; i < K; ++i)  // by constant places: an argument that is indexed is copied to memory
    if (i == k) to = sums.to[i], add = sums.add[i];
  if (!to) return;  // a whole block
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t c = blockIdx.x % tiles * kWarp + lane;
  double total = 0;
  if (c < cols)
    for (std::int64_t i = warp; i < chunks; i += kColumnWarps) total += partial[(k * chunks + i) * cols + c];
  of_warp[static_cast<int>(threadIdx.x)] = total;
  __syncthreads();
  if (warp > 0 || c >= cols) return;
  double sum = 0;
  for (int w = 0; w < kColumnWarps; ++w) sum += of_warp[w * kWarp + lane];
  put(to[c], P(sum), add);
}
template <int K, class P>
void finish_sums(const char* op, std::int64_t chunks, std::int64_t cols, const double* partial, const Gradient (&to)[K],
                 const Stream& stream) {
  SumsTo<K, P> sums{};
  bool wanted = false;
  for (int k = 0; k < K; ++k) {
    wanted |= bool(to[k]);
    sums.to[k] = to[k].to.template data<P>();
    sums.add[k] = adds(to[k]);
  }
  if (wanted)
    launch(op, finish_columns<K, P>, {K * ceil_div(cols, kWarp), kColumnThreads}, stream, chunks, cols, partial, sums);
}

/// to [cols / group] (+)= the sums of partial [chunks, cols] over chunks and over the columns of a group, by one block
/// each.
template <class P>
__global__ void finish_groups(std::int64_t chunks, std::int64_t cols, std::int64_t group, const double* partial, P* to,
                              bool add) {
  const std::int64_t g = blockIdx.x;
  const double total = block_sum_of<double>(
      chunks * group, [&](std::int64_t i) { return partial[i / group * cols + g * group + i % group]; });
  if (threadIdx.x == 0) put(to[g], P(total), add);
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
  Gradient ungrouped[K];
  for (int k = 0; k < K; ++k) {
    if (groups[k] == 1)
      ungrouped[k] = to[k];
    else if (to[k])
      launch(op, finish_groups<P>, {cols / groups[k], kColumnThreads}, stream, chunks, cols, groups[k],
             partial + k * chunks * cols, to[k].to.template data<P>(), adds(to[k]));
  }
  finish_sums<K, P>(op, chunks, cols, partial, ungrouped, stream);
}
template <int K, class A, class P, class F>
void column_sums(const char* op, std::int64_t rows, std::int64_t cols, F terms, const Gradient (&to)[K], Buffer& buffer,
                 const Stream& stream) {
  std::int64_t ones[K];
  for (std::int64_t& one : ones) one = 1;
  column_sums<K, A, P>(op, rows, cols, terms, to, buffer, stream, ones);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
