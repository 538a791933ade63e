// Sums over rows in two stages of a fixed order, for gradients of biases, gains and tables. A few rows at a time are
// added in A, and these sums in double, as on the CPU: otherwise a gradient whose thousands of rows cancel would drown
// in rounding errors of partial sums.
#pragma once

#include "cuda/kernel.cuh"
#include "cuda/waiting_sums.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

inline constexpr int kColumnThreads = 256;  // a warp has kWarp adjacent columns, the warps share the rows
inline constexpr int kColumnWarps = kColumnThreads / kWarp;

/// Rows that one block adds: a function of the shape alone, which fixes the order of sums.
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

/// sum += the next kAtOnce of `left` chunks, repeated while at least kAtOnce are left.
template <int kAtOnce>
__device__ void add_chunks(const double*& from, std::int64_t step, std::int64_t& left, double& sum) {
  for (; left >= kAtOnce; left -= kAtOnce) {
    double values[kAtOnce];
    NORMLAB_UNROLL
    for (int i = 0; i < kAtOnce; ++i, from += step) values[i] = *from;
    NORMLAB_UNROLL
    for (int i = 0; i < kAtOnce; ++i) sum += values[i];
  }
}
/// The sum over chunks of the column that starts at `first`. The lanes of a warp have one column each. The warps share
/// the chunks and read many at once, since reading so few values is limited by latency, not bandwidth. All threads of a
/// block of kColumnThreads must call this; 0 if not `inside`.
__device__ inline double sum_of_chunks(std::int64_t chunks, std::int64_t cols, const double* first, bool inside) {
  NORMLAB_SHARED(double, of_warp, kColumnThreads);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  std::int64_t left = inside && warp < chunks ? ceil_div(chunks - warp, kColumnWarps) : 0;  // of this warp
  const double* from = first + (left > 0 ? warp * cols : 0);
  double sum = 0;
  add_chunks<16>(from, kColumnWarps * cols, left, sum);
  add_chunks<4>(from, kColumnWarps * cols, left, sum);
  add_chunks<1>(from, kColumnWarps * cols, left, sum);
  __syncthreads();  // no thread reads an earlier sum any more
  of_warp[static_cast<int>(threadIdx.x)] = sum;
  __syncthreads();
  double total = 0;
  for (int w = 0; w < kColumnWarps; ++w) total += of_warp[w * kWarp + lane];
  return total;
}
/// This thread's column in tiles of kWarp columns, one block each, and the row of tiles it is in.
struct TileColumn {
  std::int64_t row, c;
  __device__ explicit TileColumn(std::int64_t cols) {
    const auto tiles = static_cast<unsigned>(ceil_div(cols, kWarp));
    row = blockIdx.x / tiles;
    c = std::int64_t{blockIdx.x % tiles} * kWarp + threadIdx.x % kWarp;
  }
  /// The one thread that writes a column.
  __device__ bool writes(std::int64_t cols) const { return threadIdx.x < kWarp && c < cols; }
};

/// Where K sums go, as far as they are wanted. grouped: columns must still be added up.
template <int K, class P>
struct SumsTo {
  P* to[K];
  bool add[K], grouped[K];
  struct One {
    P* to;
    bool add, grouped;
  };
  __device__ One at(std::int64_t row) const {
    One one{};
    NORMLAB_UNROLL
    for (int k = 0; k < K; ++k)  // by constant indices: an indexed argument would be copied to memory
      if (k == row) one = {to[k], add[k], grouped[k]};
    return one;
  }
};
template <class P, int K>
SumsTo<K, P> sums_to(const Gradient (&to)[K]) {
  SumsTo<K, P> targets{};
  for (int k = 0; k < K; ++k)
    if (to[k]) targets.to[k] = to[k].to.template data<P>(), targets.add[k] = adds(to[k]);
  return targets;
}

/// Writes the sums of all chunks to their destinations, or to `sums` [K, cols] if they are grouped. The grid is K rows
/// of tiles.
template <int K, class P>
__global__ void __launch_bounds__(kColumnThreads)
    finish_chunks(std::int64_t chunks, std::int64_t cols, const double* partial, double* sums, SumsTo<K, P> targets) {
  const TileColumn at(cols);
  const auto [to, add, grouped] = targets.at(at.row);
  if (!to) return;  // a whole block
  const double total = sum_of_chunks(chunks, cols, partial + at.row * chunks * cols + at.c, at.c < cols);
  if (!at.writes(cols)) return;
  if (grouped)
    sums[at.row * cols + at.c] = total;
  else
    put(to[at.c], P(total), add);
}

/// to [cols / group] (+)= the sums over the columns of a group, one block each.
template <class P>
__global__ void add_columns(std::int64_t group, const double* sums, P* to, bool add) {
  sums += blockIdx.x * group;
  const double total = block_sum_of<double>(group, [&](std::int64_t i) { return sums[i]; });
  if (threadIdx.x == 0) put(to[blockIdx.x], P(total), add);
}

/// Sums of single columns.
template <int K>
inline constexpr std::int64_t kUngrouped[K]{};

/// Computes the wanted gradients in `to`, at once or later, from partial [K, chunks, cols] in the room of `waiting`,
/// which must be followed by room for [K, cols] if any is grouped.
template <int K, class P>
void finish_sums(const char* op, std::int64_t chunks, std::int64_t cols, double* partial, const Gradient (&to)[K],
                 WaitingSums& waiting, const Stream& stream, const std::int64_t (&groups)[K] = kUngrouped<K>) {
  SumsTo<K, P> targets = sums_to<P>(to);
  bool now = false;
  for (int k = 0; k < K; ++k)
    if (to[k] && to[k].later && !adds(to[k])) {
      waiting.wait({partial + k * chunks * cols, targets.to[k], partial + (K * chunks + k) * cols,
                    static_cast<std::int32_t>(chunks), static_cast<std::int32_t>(cols),
                    static_cast<std::int32_t>(groups[k]), std::is_same_v<P, double>});
      targets.to[k] = nullptr;
    } else if (to[k]) {
      now = true;
    }
  if (!now) return;
  for (int k = 0; k < K; ++k) targets.grouped[k] = groups[k] > 1;
  double* sums = partial + K * chunks * cols;
  launch(op, finish_chunks<K, P>, {K * ceil_div(cols, kWarp), kColumnThreads}, stream, chunks, cols, partial, sums,
         targets);
  for (int k = 0; k < K; ++k)
    if (targets.to[k] && targets.grouped[k])
      launch(op, add_columns<P>, {cols / groups[k], kColumnThreads}, stream, groups[k], sums + k * cols, targets.to[k],
             targets.add[k]);
}
template <std::size_t K>
bool any_wanted(const Gradient (&to)[K]) {
  for (const Gradient& g : to)
    if (g) return true;
  return false;
}

/// The wanted gradients in `to` (of type P) get the K sums over rows of terms(row, column, A (&values)[K]), called for
/// every row and column. `groups[k]` adjacent columns form one value of the k-th sum; 0: one.
template <int K, class A, class P, class F>
void column_sums(const char* op, std::int64_t rows, std::int64_t cols, F terms, const Gradient (&to)[K],
                 WaitingSums& waiting, const Stream& stream, const std::int64_t (&groups)[K] = kUngrouped<K>) {
  if (!any_wanted(to)) return;
  const std::int64_t chunk_rows = rows_of_chunk(rows), chunks = rows > 0 ? ceil_div(rows, chunk_rows) : 0;
  double* partial = waiting.room(K * (chunks + 1) * cols + 1);
  launch(op, column_chunks<K, A, F>, {chunks * ceil_div(cols, kWarp), kColumnThreads}, stream, rows, cols, chunk_rows,
         terms, partial);
  finish_sums<K, P>(op, chunks, cols, partial, to, waiting, stream, groups);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
