// column_sums() in vectors: K sums over rows at once, in the same order and with the same bits, while also writing one
// result per element. A backward pass thus reads its inputs once for the gradient of x and those of column parameters.
#pragma once

#include "cuda/column_sums.cuh"
#include "cuda/each_vector.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// One thread's share of a chunk, as in Run, and the sums over it.
template <int K, int V, class A>
struct SumRun {
  std::int64_t first, step, end, column, part;
  double total[K][V] = {};

  /// Calls f(at, A (&terms)[K][V], T (&values)[V]...), which sets the terms of each column.
  template <class F, class... T>
  __device__ void each(F&& f, const T*... from) {
    constexpr int kRows = 8, kAhead = rows_ahead((0 + ... + sizeof(T[V])), 4);
    for (std::int64_t at = first; at < end; at += kRows * step) {
      A few[K][V] = {};
      for (int i = 0; i < kRows; i += kAhead) {
        const std::int64_t next = at + i * step;
        call<kAhead>(f, next, few, Ahead<V, kAhead, T>(from, next, step, end)...);
      }
      for (int k = 0; k < K; ++k)
        for (int v = 0; v < V; ++v) total[k][v] += double(few[k][v]);
    }
  }

 private:
  template <int kAhead, class F, class... Read>
  __device__ void call(F& f, std::int64_t at, A (&few)[K][V], const Read&... read) const {
    NORMLAB_UNROLL
    for (int a = 0; a < kAhead; ++a)
      if (at + a * step < end) {
        A terms[K][V];
        f(at + a * step, terms, read.values[a]...);
        for (int k = 0; k < K; ++k)
          for (int v = 0; v < V; ++v) few[k][v] += terms[k][v];
      }
  }
};

/// Blocks per SM for which registers are kept: as many as possible without spilling.
template <int K, class A>
inline constexpr int kBlocksAtOnce = sizeof(A) > 4 ? 1
                                     : K < 3       ? 3
                                                   : 2;

/// partial [K, chunks of all parts, cols]: the sums over each chunk of a part. A thread has V columns.
template <int K, int V, class A, class F>
__global__ void __launch_bounds__(kColumnThreads, kBlocksAtOnce<K, A>)
    chunks_of_vectors(Parts parts, std::int64_t chunk_rows, F f, double* partial) {
  NORMLAB_SHARED(double, of_warp, K* V* kColumnThreads);
  constexpr int kTile = V * kWarp;  // columns of a block
  const std::int64_t tiles = ceil_div(parts.cols, kTile), chunk = quotient(blockIdx.x, tiles);
  const std::int64_t of_part = ceil_div(parts.part_rows, chunk_rows);
  const std::int64_t part = parts.count == 1 ? 0 : quotient(chunk, of_part), size = parts.size(part);
  const std::int64_t begin = (chunk - part * of_part) * chunk_rows;
  const std::int64_t end = begin + chunk_rows < size ? begin + chunk_rows : size, tile = blockIdx.x - chunk * tiles;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t c = tile * kTile + lane * V, first = part * parts.part_rows;
  SumRun<K, V, A> run{(first + begin + warp) * parts.cols + c, kColumnWarps * parts.cols, (first + end) * parts.cols, c,
                      part};
  if (c < parts.cols) f(run);
  for (int k = 0; k < K; ++k)
    for (int v = 0; v < V; ++v) of_warp[(k * kColumnWarps + warp) * kTile + lane * V + v] = run.total[k][v];
  __syncthreads();
  const std::int64_t chunks = of_part * parts.count;
  for (int i = static_cast<int>(threadIdx.x); i < K * kTile; i += kColumnThreads) {
    const int k = i / kTile, column = i % kTile;
    if (tile * kTile + column >= parts.cols) continue;
    double sum = 0;
    for (int w = 0; w < kColumnWarps; ++w) sum += of_warp[(k * kColumnWarps + w) * kTile + column];
    partial[(k * chunks + chunk) * parts.cols + tile * kTile + column] = sum;
  }
}

/// Calls f(SumRun<K, V, Acc<T>>&) for runs that together cover the parts, and stores the sums of chunks. V is at most
/// kMost, since each sum takes registers, and 1 if what f accesses is not aligned or the width is no multiple.
template <int K, class T, int kMost = 4, class F>
void sum_chunks(const char* op, Parts parts, std::int64_t chunk_rows, bool aligned, F f, double* partial,
                const Stream& stream) {
  const auto start = [&](auto width) {
    constexpr int kValues = decltype(width)::value;
    launch(
        op, chunks_of_vectors<K, kValues, Acc<T>, F>,
        {ceil_div(parts.part_rows, chunk_rows) * parts.count * ceil_div(parts.cols, kValues * kWarp), kColumnThreads},
        stream, parts, chunk_rows, f, partial);
  };
  constexpr int kValues = kVector<T> < kMost ? kVector<T> : kMost;
  if (aligned && parts.cols % kValues == 0)
    start(std::integral_constant<int, kValues>());
  else
    start(std::integral_constant<int, 1>());
}

/// Like column_sums(): the wanted gradients in `to` get the K sums over rows of the terms that f sets.
template <int K, class T, int kMost = 4, class F>
void vector_sums(const char* op, std::int64_t rows, std::int64_t cols, bool aligned, F f, const Gradient (&to)[K],
                 WaitingSums& waiting, const Stream& stream, const std::int64_t (&groups)[K] = kUngrouped<K>) {
  const std::int64_t chunk_rows = rows_of_chunk(rows), chunks = rows > 0 ? ceil_div(rows, chunk_rows) : 0;
  double* partial = waiting.room(K * (chunks + 1) * cols + 1);
  sum_chunks<K, T, kMost>(op, Parts(rows, cols), chunk_rows, aligned, f, partial, stream);
  if (any_wanted(to)) finish_sums<K, Param<T>>(op, chunks, cols, partial, to, waiting, stream, groups);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
