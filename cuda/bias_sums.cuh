// The gradient of a bias: column_sums() of one matrix, in the same order and to the same bits, 16 bytes at once. What
// makes the matrix may write it on the way, which saves a pass over it.
#pragma once

#include "cuda/vector_sums.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

template <class T, class F>
struct BiasTerms {
  F values;
  template <int V>
  __device__ void operator()(SumRun<1, V, Acc<T>>& run) const {
    run.each([&](std::int64_t at, Acc<T>(&terms)[1][V]) {
      T row[V];
      values(at, row);
      for (int k = 0; k < V; ++k) terms[0][k] = Acc<T>(row[k]);
    });
  }
};

/// Calls values(offset, T (&row)[V]) once for every V values next to each other of a matrix [rows, cols]; db, where it
/// is wanted, gets the sums over rows of what that gives. V is kVector<T> where `vectors`, else 1.
template <class T, class F>
void bias_sums(const char* op, std::int64_t rows, std::int64_t cols, bool vectors, F values, Gradient db,
               Buffer& buffer, const Stream& stream) {
  vector_sums<1, T, kVector<T>>(op, rows, cols, vectors, BiasTerms<T, F>{values}, {db}, buffer, stream);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
