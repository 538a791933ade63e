// What the CPU kernels share: writing or adding, scratch memory, sums over rows and columns.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/cpu/blas.h"
#include "core/cpu/cpu_backend.h"
#include "core/cpu/scratch.h"
#include "core/for_type.h"

namespace normlab::cpu {

template <class T, class A>
void put(T& to, A value, bool add) {
  to = add ? T(Acc<T>(to) + Acc<T>(value)) : T(Acc<T>(value));
}
inline bool adds(const Gradient& g) { return g.write == Write::add; }

/// n values as Acc<T>: the values themselves, or a widened copy in `slot`.
template <class T>
const Acc<T>* widen(Slot slot, const T* x, std::int64_t n) {
  if constexpr (std::is_same_v<T, Acc<T>>) {
    return x;
  } else {
    Acc<T>* wide = scratch<Acc<T>>(slot, n);
    for (std::int64_t i = 0; i < n; ++i) wide[i] = Acc<T>(x[i]);
    return wide;
  }
}

template <class A, class F>
A sum(std::int64_t n, F&& term) {
  A total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < n; ++i) total += term(i);
  return total;
}

/// [cols] sums over rows of term(r, c), rows in order, valid until the slot is used again. A few rows at a time are
/// added in A and those sums in double: a gradient whose thousands of rows cancel, such as that of a bias before a
/// batch norm, would otherwise drown in the rounding of its partial sums.
template <class A, class F>
const double* column_sums(std::int64_t rows, std::int64_t cols, Slot slot, F&& term) {
  constexpr std::int64_t kRows = 8;
  double* total = scratch<double>(slot, 2 * cols);
  A* few = reinterpret_cast<A*>(total + cols);
  std::fill_n(total, cols, 0.0);
  for (std::int64_t begin = 0; begin < rows; begin += kRows) {
    std::fill_n(few, cols, A(0));
    for (std::int64_t r = begin; r < std::min(begin + kRows, rows); ++r)
      for (std::int64_t c = 0; c < cols; ++c) few[c] += term(r, c);
    for (std::int64_t c = 0; c < cols; ++c) total[c] += double(few[c]);
  }
  return total;
}

/// to[c] (+)= those sums.
template <class P, class F>
void sum_columns(std::int64_t rows, std::int64_t cols, Slot slot, const Gradient& to, F&& term) {
  if (!to) return;
  const double* total = column_sums<P>(rows, cols, slot, term);
  P* out = to.to.data<P>();
  for (std::int64_t c = 0; c < cols; ++c) put(out[c], P(total[c]), adds(to));
}

}  // namespace normlab::cpu
