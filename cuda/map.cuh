// Elementwise kernels with values per column and sums over rows from a formula (core/shared_kernels.h).
#pragma once

#include "cuda/cuda_backend.h"
#include "cuda/vector_sums.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// gain[c / group] for the columns of a run.
template <int V, class P>
__device__ void load_gains(const P* gain, std::int64_t group, std::int64_t column, P (&to)[V]) {
  if (group == 1) {
    load(gain + column, to);
  } else if (group % V == 0) {
    const P all = gain[quotient(column, group)];
    for (P& each : to) each = all;
  } else {
    for (int k = 0; k < V; ++k) to[k] = gain[quotient(column + k, group)];
  }
}

template <class T, class F, std::size_t kIn, std::size_t kColumns, std::size_t kSums>
struct Map {
  using A = Acc<T>;
  F f;
  const T* in[kIn];
  const A* columns[kColumns + 1];
  std::size_t by_part;
  std::int64_t cols, group;
  T* y;
  bool add, whole;  // whole: all is aligned for vectors
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    with_columns<V>(
        run, [&]<std::size_t... i, std::size_t... k>(const A(&gains)[kColumns + 1][V], std::index_sequence<i...>,
                                                     std::index_sequence<k...>) {
          run.each(
              [&](std::int64_t at, const auto&... x) {
                A out[V];
                for (int v = 0; v < V; ++v) out[v] = f(A(x[v])..., gains[k][v]...);
                put_all(y + at, out, add);
              },
              in[i]...);
        });
  }
  template <int V>
  __device__ void operator()(SumRun<kSums, V, A>& run) const {
    with_columns<V>(
        run, [&]<std::size_t... i, std::size_t... k>(const A(&gains)[kColumns + 1][V], std::index_sequence<i...>,
                                                     std::index_sequence<k...>) {
          run.each(
              [&](std::int64_t at, A(&terms)[kSums][V], const auto&... x) {
                A out[V], own[kSums];
                for (int v = 0; v < V; ++v) {
                  out[v] = f(own, A(x[v])..., gains[k][v]...);
                  for (std::size_t s = 0; s != kSums; ++s) terms[s][v] = own[s];
                }
                if (y) put_all(y + at, out, add);
              },
              in[i]...);
        });
  }

 private:
  template <int V, class R, class Body>
  __device__ void with_columns(const R& run, Body&& body) const {
    A gains[kColumns + 1][V];
    for (std::size_t k = 0; k != kColumns; ++k)
      load_gains(columns[k] + (k < by_part ? 0 : run.part * cols), group, run.column, gains[k]);
    body(gains, std::make_index_sequence<kIn>(), std::make_index_sequence<kColumns>());
  }
};

template <class T, class F, std::size_t kIn, std::size_t kColumns, std::size_t kSums>
Map<T, F, kIn, kColumns, kSums> map_of(const F& f, std::int64_t cols, const Operands<kIn, kColumns, kSums>& operands) {
  Map<T, F, kIn, kColumns, kSums> run{f,
                                      {},
                                      {},
                                      operands.by_part,
                                      cols,
                                      operands.group,
                                      operands.y.to.template data<T>(),
                                      adds(operands.y),
                                      aligned({operands.y.to.raw()})};
  for (std::size_t i = 0; i != kIn; ++i) run.whole &= aligned({run.in[i] = operands.in[i].template data<T>()});
  for (std::size_t k = 0; k != kColumns; ++k)
    run.whole &= aligned({run.columns[k] = operands.columns[k].template data<Acc<T>>()});
  return run;
}

template <class T, class F, std::size_t kIn, std::size_t kColumns, std::size_t kSums>
void map_values(const char* op, std::int64_t rows, std::int64_t cols, const F& f,
                const Operands<kIn, kColumns, kSums>& operands, WaitingSums& waiting, const Stream& stream) {
  const auto run = map_of<T>(f, cols, operands);
  if constexpr (kSums > 0) {
    std::int64_t groups[kSums];
    for (std::int64_t& group : groups) group = operands.group;
    vector_sums<kSums, T>(op, rows, cols, run.whole, run, operands.sums, waiting, stream, groups);
  } else if constexpr (kColumns > 0) {
    each_vector<T>(op, Parts(rows, cols), run.whole, stream, run);
  } else {
    each_vector<T>(op, rows * cols, run.whole, stream, run);
  }
}

template <class F, std::size_t kIn, std::size_t kColumns, std::size_t kSums>
void CudaBackend::map(const char* op, std::int64_t rows, std::int64_t cols, const F& f,
                      const Operands<kIn, kColumns, kSums>& operands) {
  for_type(op, operands.in[0].dtype(),
           [&]<class T>(Type<T>) { map_values<T>(op, rows, cols, f, operands, sums_, stream_); });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
