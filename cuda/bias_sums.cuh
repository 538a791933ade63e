// The gradient of a bias: column_sums() of one matrix, in the same order and to the same bits, 16 bytes at once. What
// makes the matrix may write it on the way, which saves a pass over it.
#pragma once

#include "cuda/column_sums.cuh"
#include "cuda/vectors.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// partial [chunks, cols]: the sums over the rows of each chunk of what `values` gives. A thread has V columns.
template <class T, int V, class F>
__global__ void bias_chunks(std::int64_t rows, std::int64_t cols, std::int64_t chunk_rows, F values, double* partial) {
  NORMLAB_SHARED(double, of_warp, V* kColumnThreads);
  const std::int64_t tiles = ceil_div(cols, V * kWarp), chunk = blockIdx.x / tiles;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t c = (blockIdx.x % tiles * kWarp + lane) * V;
  const std::int64_t begin = chunk * chunk_rows, end = begin + chunk_rows < rows ? begin + chunk_rows : rows;
  constexpr int kRows = 8;
  double total[V] = {};
  if (c < cols)
    for (std::int64_t r = begin + warp; r < end; r += kRows * kColumnWarps) {
      Acc<T> few[V] = {};
      for (int i = 0; i < kRows && r + i * kColumnWarps < end; ++i) {
        T row[V];
        values((r + i * kColumnWarps) * cols + c, row);
        for (int k = 0; k < V; ++k) few[k] += Acc<T>(row[k]);
      }
      for (int k = 0; k < V; ++k) total[k] += double(few[k]);
    }
  for (int k = 0; k < V; ++k) of_warp[k * kColumnThreads + static_cast<int>(threadIdx.x)] = total[k];
  __syncthreads();
  if (warp == 0 && c < cols)
    for (int k = 0; k < V; ++k) {
      double sum = 0;
      for (int w = 0; w < kColumnWarps; ++w) sum += of_warp[k * kColumnThreads + w * kWarp + lane];
      partial[chunk * cols + c + k] = sum;
    }
}

/// Calls values(offset, T (&row)[V]) once for every V values next to each other of a matrix [rows, cols]; db, where it
/// is wanted, gets the sums over rows of what that gives. V is kVector<T> where `vectors`, else 1.
template <class T, class F>
void bias_sums(const char* op, std::int64_t rows, std::int64_t cols, bool vectors, F values, Gradient db,
               Buffer& buffer, const Stream& stream) {
  const std::int64_t chunk_rows = rows_of_chunk(rows), chunks = ceil_div(rows, chunk_rows);
  double* partial = buffer.get<double>(chunks * cols + 1);
  const auto start = [&](auto count) {
    constexpr int kValues = decltype(count)::value;
    launch(op, bias_chunks<T, kValues, F>, {chunks * ceil_div(cols, kValues * kWarp), kColumnThreads}, stream, rows,
           cols, chunk_rows, values, partial);
  };
  if (vectors)
    start(std::integral_constant<int, kVector<T>>());
  else
    start(std::integral_constant<int, 1>());
  finish_sums<1, Param<T>>(op, chunks, cols, partial, {db}, stream);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
