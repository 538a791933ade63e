// Explicit vectors for the kernels that are bound by memory: 64 bytes of Acc<T> whatever the CPU has, so that a sum
// over a row is added in the same order on every machine, and the compiler's own choice of vector width does not
// matter.
#pragma once

#include <type_traits>

#include "core/cpu/kernel.h"
#include "core/cpu/vector.h"

namespace normlab::cpu {

template <class A>
inline constexpr std::int64_t kRowLanes = 64 / std::int64_t(sizeof(A));

template <class A>
using Vec = Vector<A, 64>;

template <class A>
using Full = std::integral_constant<std::int64_t, kRowLanes<A>>;

/// Calls f(c, n) for each vector of a row: n is a Full<A>, or how many of the last one's lanes are there.
template <class A, class F>
[[gnu::always_inline]] inline void each_vector(std::int64_t cols, F&& f) {
  std::int64_t c = 0;
  for (; c + kRowLanes<A> <= cols; c += kRowLanes<A>) f(c, Full<A>{});
  if (c < cols) f(c, cols - c);
}

/// Calls f(r, k) for rows r .. r + k: by fours, so that what all rows share is read and written once for four, and the
/// last ones one by one. k is an integral constant. For rows that the cache has: from memory, one row after the other
/// streams faster.
template <class F>
[[gnu::always_inline]] inline void each_rows(std::int64_t rows, F&& f) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) f(r, std::integral_constant<int, 4>{});
  for (; r < rows; ++r) f(r, std::integral_constant<int, 1>{});
}

/// f(0), f(1) .. f(k - 1) with constants: what is written as an array of k vectors then lives in registers.
template <int k, class F>
[[gnu::always_inline]] inline void unrolled(F&& f) {
  f(std::integral_constant<int, 0>{});
  if constexpr (k == 4) {
    f(std::integral_constant<int, 1>{});
    f(std::integral_constant<int, 2>{});
    f(std::integral_constant<int, 3>{});
  }
}

namespace simd_detail {
typedef std::uint16_t Halves __attribute__((vector_size(32)));
typedef std::uint32_t Words __attribute__((vector_size(64)));
static_assert(sizeof(Words) == sizeof(Vec<float>));

template <class To, class From>
To as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
/// bf16(float) lane by lane.
inline Halves narrow(const Vec<float>& v) {
  const Words u = as<Words>(v);
  const Words rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const Words quiet = (u >> 16) | 0x40u;
  const Words is_nan = as<Words>((u & 0x7fffffffu) > 0x7f800000u);
  return __builtin_convertvector((rounded & ~is_nan) | (quiet & is_nan), Halves);
}
}  // namespace simd_detail

/// The n values at p, zeros behind them.
template <class T, class N>
Vec<Acc<T>> load(const T* p, N n) {
  using A = Acc<T>;
  if constexpr (std::is_same_v<T, A>) {
    Vec<A> v{};
    std::memcpy(&v, p, static_cast<std::size_t>(n) * sizeof(T));
    return v;
  } else {
    simd_detail::Halves half{};
    std::memcpy(&half, p, static_cast<std::size_t>(n) * sizeof(T));
    return simd_detail::as<Vec<A>>(__builtin_convertvector(half, simd_detail::Words) << 16);
  }
}

template <class T, class N>
void store(T* p, const Vec<Acc<T>>& v, N n) {
  if constexpr (std::is_same_v<T, Acc<T>>) {
    std::memcpy(p, &v, static_cast<std::size_t>(n) * sizeof(T));
  } else {
    const simd_detail::Halves half = simd_detail::narrow(v);
    std::memcpy(static_cast<void*>(p), &half, static_cast<std::size_t>(n) * sizeof(T));
  }
}

/// Writes v or adds it to what is there.
template <bool kAdd, class T, class N>
void put(T* p, const Vec<Acc<T>>& v, N n) {
  if constexpr (kAdd)
    store(p, load(p, n) + v, n);
  else
    store(p, v, n);
}

/// v with zeros behind its first n lanes.
template <class A, class N>
Vec<A> first(const Vec<A>& v, N n) {
  if constexpr (std::is_same_v<N, Full<A>>) {
    return v;
  } else {
    Vec<A> kept{};
    std::memcpy(&kept, &v, static_cast<std::size_t>(n) * sizeof(A));
    return kept;
  }
}

/// The sum of all lanes, halves added to halves.
inline float lane_sum(Vec<float> v) {
  v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  return v[0] + v[1];
}
inline double lane_sum(Vec<double> v) {
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
  return v[0] + v[1];
}

/// The sum over a row of term(c, n), a vector whose lanes behind n are zero; four partial sums hide the latency of an
/// addition.
template <class A, class F>
A row_sum(std::int64_t cols, F&& term) {
  Vec<A> s0{}, s1{}, s2{}, s3{};
  std::int64_t c = 0;
  constexpr std::int64_t k = kRowLanes<A>;
  for (; c + 4 * k <= cols; c += 4 * k) {
    s0 += term(c, Full<A>{});
    s1 += term(c + k, Full<A>{});
    s2 += term(c + 2 * k, Full<A>{});
    s3 += term(c + 3 * k, Full<A>{});
  }
  for (; c + k <= cols; c += k) s0 += term(c, Full<A>{});
  if (c < cols) s1 += term(c, cols - c);
  return lane_sum((s0 + s1) + (s2 + s3));
}

/// Sums over rows, kColumns of them side by side, with the rule of column_sums(): a few rows are added in A and those
/// sums in double. Takes a slot of scratch memory.
template <class A, int kColumns>
class RowAdder {
 public:
  RowAdder(Slot slot, std::int64_t cols)
      : cols_(cols),
        total_(scratch<double>(slot, 2 * kColumns * cols)),
        few_(reinterpret_cast<A*>(total_ + kColumns * cols)) {
    std::fill_n(total_, kColumns * cols, 0.0);
    std::fill_n(few_, kColumns * cols, A(0));
  }
  /// Adds v to columns c .. c + n of sum k.
  template <class N>
  void add(int k, std::int64_t c, const Vec<A>& v, N n) {
    put<true>(few_ + k * cols_ + c, v, n);
  }
  /// To be called after each group of rows.
  void end_rows(int count) {
    if ((rows_ += count) >= kRows) flush();
  }
  /// [cols] of sum k over all rows so far.
  [[gnu::always_inline]] const double* total(int k) {
    if (rows_ > 0) flush();
    return total_ + k * cols_;
  }
  /// to[c] (+)= sum k, where a gradient is wanted.
  template <class P>
  [[gnu::always_inline]] void finish(int k, const Gradient& to) {
    if (!to) return;
    const double* sums = total(k);
    P* out = to.to.data<P>();
    for (std::int64_t c = 0; c < cols_; ++c) cpu::put(out[c], P(sums[c]), adds(to));
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
  double* const total_;
  A* const few_;
  int rows_ = 0;
};

/// f(std::true_type) or f(std::false_type): a choice made once instead of in the inner loop.
template <class F>
void choose(bool value, F&& f) {
  if (value)
    f(std::true_type{});
  else
    f(std::false_type{});
}

}  // namespace normlab::cpu
