// What the CPU kernels share: scratch memory, sums over rows and columns, choices made outside of loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/cpu/blas.h"
#include "core/cpu/cpu_backend.h"
#include "core/cpu/scratch.h"
#include "core/cpu/vector.h"
#include "core/for_type.h"

namespace normlab::cpu {

static inline bool adds(const Gradient& g) { return g.write == Write::add; }

/// n values as Acc<T> in `to`, unless they are such already.
template <class T>
static const Acc<T>* widen(const T* x, std::int64_t n, [[maybe_unused]] Acc<T>* to) {
  if constexpr (std::is_same_v<T, Acc<T>>) {
    return x;
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = Acc<T>(x[i]);
    return to;
  }
}

template <class A, class F>
static A sum(std::int64_t n, F&& term) {
  A total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < n; ++i) total += term(i);
  return total;
}

/// Each value of `to` gets the sum of `group` totals.
template <class P>
[[gnu::always_inline]] static inline void put_sums(std::int64_t cols, const double* total, const Gradient& to,
                                                   std::int64_t group = 1) {
  P* out = to.to.data<P>();
  if (group == 1)
    for (std::int64_t c = 0; c < cols; ++c) put(out[c], P(total[c]), adds(to));
  else
    for (std::int64_t g = 0; g < cols / group; ++g)
      put(out[g], P(sum<double>(group, [&](auto c) { return total[g * group + c]; })), adds(to));
}

/// to[c] (+)= the sum over rows of term(r, c), in row order, if the gradient is wanted. A few rows at a time are added in
/// P, and these sums in double. Otherwise a gradient whose thousands of rows cancel, such as that of a bias before a
/// batch norm, would drown in rounding errors of partial sums.
template <class P, class F>
static void sum_columns(std::int64_t rows, std::int64_t cols, const Gradient& to, F&& term) {
  if (!to) return;
  constexpr std::int64_t kRows = 8;
  const Scratch<double> total(cols);
  const Scratch<P> few(cols);
  std::fill_n(total.begin(), cols, 0.0);
  for (std::int64_t begin = 0; begin < rows; begin += kRows) {
    std::fill_n(few.begin(), cols, P(0));
    for (std::int64_t r = begin; r < std::min(begin + kRows, rows); ++r)
      for (std::int64_t c = 0; c < cols; ++c) few[c] += term(r, c);
    for (std::int64_t c = 0; c < cols; ++c) total[c] += double(few[c]);
  }
  put_sums<P>(cols, total, to);
}

/// to[i] += double(v[i]).
template <class A, bool kAll>
[[gnu::always_inline]] static inline void add_to_doubles(double* to, const Vec<A>& v, Lanes<A, kRowBytes, kAll> lanes) {
  if constexpr (kAll && std::is_same_v<A, float>) {
    const auto low = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
    const auto high = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    put<true>(to, __builtin_convertvector(low, Vec<double>), AllLanes<double, kRowBytes>{});
    put<true>(to + 8, __builtin_convertvector(high, Vec<double>), AllLanes<double, kRowBytes>{});
  } else {
    alignas(64) A values[kLanes<A, kRowBytes>];
    *reinterpret_cast<Vec<A>*>(values) = v;
    for (std::int64_t i = 0; i < lanes.count(); ++i) to[i] += double(values[i]);
  }
}

/// kColumns sums over rows at once, by the rule of sum_columns(): a few rows are added in A, and these sums in double.
template <class A, int kColumns>
class RowAdder {
 public:
  explicit RowAdder(std::int64_t cols)
      : cols_(cols),
        memory_(2 * kColumns * cols),
        total_(memory_),
        few_(reinterpret_cast<A*>(total_ + kColumns * cols)) {
    std::fill_n(total_, kColumns * cols, 0.0);
    std::fill_n(few_, kColumns * cols, A(0));
  }
  /// Adds v to the columns from c on of sum k.
  template <bool kAll>
  void add(int k, std::int64_t c, const Vec<A>& v, Lanes<A, kRowBytes, kAll> lanes) {
    put<true>(few_ + k * cols_ + c, v, lanes);
  }
  /// The same for the values of some rows, in order.
  template <bool kAll, std::size_t kCount>
  [[gnu::always_inline]] void add(int k, std::int64_t c, const Vec<A> (&v)[kCount], Lanes<A, kRowBytes, kAll> lanes) {
    Vec<A> few = load(few_ + k * cols_ + c, lanes);
    for (const Vec<A>& row : v) few += row;
    store(few_ + k * cols_ + c, few, lanes);
  }
  /// Must be called after each group of rows.
  void end_rows(int count) {
    if ((rows_ += count) >= kRows) flush();
  }
  /// [cols] of sum k over all rows so far.
  [[gnu::always_inline]] const double* total(int k) {
    if (rows_ > 0) flush();
    return total_ + k * cols_;
  }
  /// to[c] (+)= sum k, if the gradient is wanted.
  template <class P>
  [[gnu::always_inline]] void finish(int k, const Gradient& to, std::int64_t group = 1) {
    if (to) put_sums<P>(cols_, total(k), to, group);
  }

 private:
  static constexpr int kRows = 8;
  // Inlined, so that the addresses stay in registers.
  [[gnu::always_inline]] void flush() {
    for (std::int64_t c = 0; c < kColumns * cols_; ++c) {
      total_[c] += double(few_[c]);
      few_[c] = 0;
    }
    rows_ = 0;
  }
  const std::int64_t cols_;
  const Scratch<double> memory_;
  double* const total_;
  A* const few_;
  int rows_ = 0;
};

/// Asks for what a loop over long rows reads half a page later. A long computation between loads hides too few of them
/// by itself.
template <class... P>
[[gnu::always_inline]] static inline void prefetch_ahead(const P*... p) noexcept {
  (__builtin_prefetch(reinterpret_cast<const char*>(p) + 2048), ...);
}

/// Calls f(r, count) for `count` rows from r on, a constant: for two long rows of A at a time, which then read gains
/// and sums once. Those of short rows stay in the first-level cache.
template <class A, class F>
[[gnu::always_inline]] static inline void each_row_pair(std::int64_t rows, std::int64_t cols, F&& f) {
  constexpr std::int64_t kLong = 4096 / sizeof(A);
  std::int64_t r = 0;
  if (cols >= kLong)
    for (; r + 2 <= rows; r += 2) f(r, std::integral_constant<int, 2>{});
  for (; r < rows; ++r) f(r, std::integral_constant<int, 1>{});
}

/// f(std::true_type) or f(std::false_type): chooses once instead of in the inner loop.
template <class F>
static void choose(bool value, F&& f) {
  if (value)
    f(std::true_type{});
  else
    f(std::false_type{});
}

}  // namespace normlab::cpu
