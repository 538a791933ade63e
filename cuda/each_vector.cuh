// Elementwise loops in vectors of 16 bytes, or in single values where widths or pointers do not allow vectors. A thread
// has its vectors in the same columns of several rows, so it reads column data and computes its position only once.
// Rows are read ahead, because the compiler cannot move a kernel's reads before its writes.
#pragma once

#include <numeric>

#include "cuda/vectors.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// Rows in parts of `part_rows`; the last part may be smaller.
struct Parts {
  std::int64_t rows, cols, part_rows, count;
  Parts(std::int64_t all, std::int64_t columns) : Parts(all, columns, all, 1) {}
  Parts(std::int64_t all, std::int64_t columns, std::int64_t of_part, std::int64_t parts)
      : rows(all), cols(columns), part_rows(of_part), count(parts) {}
  __device__ std::int64_t size(std::int64_t part) const {
    const std::int64_t left = rows - part * part_rows;
    return left < part_rows ? left : part_rows;
  }
};

/// The vectors at `at`, `at` + step, ... before `end`, as many as are read ahead.
template <int V, int kAhead, class T>
struct Ahead {
  T values[kAhead][V];
  __device__ Ahead(const T* from, std::int64_t at, std::int64_t step, std::int64_t end) {
    for (int a = 0; a < kAhead; ++a)
      if (at + a * step < end) load(from + at + a * step, values[a]);
  }
};
/// Rows whose inputs (`bytes` per row) a thread reads before it works on the first: 64 bytes in total, with which some
/// 20 warps of an SM keep the memory busy.
constexpr int rows_ahead(std::size_t bytes, int most) {
  int rows = 1;
  while (rows < most && bytes > 0 && 2 * rows * bytes <= 64) rows *= 2;
  return rows;
}

/// One thread's share: vectors at the offsets first, first + step, ... before end, all at `column` and in one part.
template <int V>
struct Run {
  std::int64_t first, step, end, column, part;

  /// Calls f(at, T (&values)[V]...) with the values there of each of `from`.
  template <class F, class... T>
  __device__ void each(F&& f, const T*... from) const {
    constexpr int kAhead = rows_ahead((0 + ... + sizeof(T[V])), 4);
    for (std::int64_t at = first; at < end; at += kAhead * step)
      call<kAhead>(f, at, Ahead<V, kAhead, T>(from, at, step, end)...);
  }

 private:
  template <int kAhead, class F, class... Read>
  __device__ void call(F& f, std::int64_t at, const Read&... read) const {
    NORMLAB_UNROLL
    for (int a = 0; a < kAhead; ++a)
      if (at + a * step < end) f(at + a * step, read.values[a]...);
  }
};

inline constexpr int kVectorThreads = 256, kRowsOfThread = 4;

/// `blocks` per part. The grid's step is a whole number of rows, unless each thread has only one vector.
template <int V, class F>
__global__ void __launch_bounds__(kVectorThreads) vectors_of_parts(Parts parts, std::int64_t blocks, F f) {
  const std::int64_t part = parts.count == 1 ? 0 : quotient(blockIdx.x, blocks);
  const std::int64_t begin = part * parts.part_rows * parts.cols, end = begin + parts.size(part) * parts.cols;
  const std::int64_t at = ((blockIdx.x - part * blocks) * blockDim.x + threadIdx.x) * V;
  if (begin + at < end) f(Run<V>{begin + at, blocks * blockDim.x * V, end, remainder(at, parts.cols), part});
}

/// Calls f(Run<V>) such that every value of the parts is in one run. F is a struct of pointers and numbers with a
/// template <int V> __device__ operator(). V is kVector<T> if the width allows it and what f accesses is aligned,
/// else 1. `rows_of_thread`: fewer where f itself reads many rows.
template <class T, class F>
void each_vector(const char* op, Parts parts, bool aligned, const Stream& stream, F f,
                 int rows_of_thread = kRowsOfThread) {
  if (parts.rows * parts.cols == 0) return;
  const auto start = [&](auto width) {
    constexpr int kValues = decltype(width)::value;
    const std::int64_t enough = ceil_div(parts.part_rows * parts.cols / kValues, kVectorThreads);
    const std::int64_t whole_rows = parts.cols / std::gcd(parts.cols, std::int64_t{kVectorThreads * kValues});
    const std::int64_t some = ceil_div(ceil_div(enough, rows_of_thread), whole_rows) * whole_rows;
    const std::int64_t blocks = some < enough ? some : enough;
    launch(op, vectors_of_parts<kValues, F>, {parts.count * blocks, kVectorThreads}, stream, parts, blocks, f);
  };
  if (aligned && parts.cols % kVector<T> == 0)
    start(std::integral_constant<int, kVector<T>>());
  else
    start(std::integral_constant<int, 1>());
}

/// Without columns: any number n of values, the last ones singly.
template <int V, class F>
__global__ void __launch_bounds__(kVectorThreads) vectors_of_values(std::int64_t n, F f) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, whole = n / V * V;
  if (i * V < whole) f(Run<V>{i * V, std::int64_t{gridDim.x} * blockDim.x * V, whole, 0, 0});
  if constexpr (V > 1)
    if (i < n - whole) f(Run<1>{whole + i, n, n, 0, 0});
}
template <class T, class F>
void each_vector(const char* op, std::int64_t n, bool aligned, const Stream& stream, F f) {
  const auto start = [&](auto width) {
    constexpr int kValues = decltype(width)::value;
    launch(op, vectors_of_values<kValues, F>,
           {ceil_div(ceil_div(n, kValues), kVectorThreads * kRowsOfThread), kVectorThreads}, stream, n, f);
  };
  if (aligned)
    start(std::integral_constant<int, kVector<T>>());
  else
    start(std::integral_constant<int, 1>());
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
