// Explicit vectors by the compilers' vector extension: one source for SSE, AVX2, AVX-512 and NEON. There are two
// widths:
//   kVectorBytes  the width of the machine's registers;
//   kRowBytes     the same on every CPU, so that sums over a row are added in the same order on every machine, whatever
//                 vector width the compiler chooses.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/dtype.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace normlab::cpu {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64, kVectorRegisters = 32;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32, kVectorRegisters = 16;
#elif defined(__aarch64__)
inline constexpr int kVectorBytes = 16, kVectorRegisters = 32;
#else
inline constexpr int kVectorBytes = 16, kVectorRegisters = 16;
#endif
inline constexpr int kRowBytes = 64;

template <class T, int kBytes = kVectorBytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(kBytes)));
  typedef T unaligned __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
};
template <class T, int kBytes = kVectorBytes>
using Vector = typename VectorOf<T, kBytes>::type;
template <class T, int kBytes = kVectorBytes>
inline constexpr std::int64_t kLanes = kBytes / static_cast<int>(sizeof(T));

/// A vector of a row of Acc<T>.
template <class A>
using Vec = Vector<A, kRowBytes>;

/// The lanes of a vector that hold values: all, or the first `tail`. Reads put zeros in the others, and writes leave
/// the memory there untouched.
template <class A, int kBytes, bool kAll>
struct Lanes {
  std::int64_t tail = 0;
  constexpr std::int64_t count() const { return kAll ? kLanes<A, kBytes> : tail; }
#if defined(__AVX512F__)
  auto mask() const { return static_cast<std::conditional_t<sizeof(A) == 4, __mmask16, __mmask8>>((1u << tail) - 1); }
#endif
};
template <class A, int kBytes = kVectorBytes>
using AllLanes = Lanes<A, kBytes, true>;
template <class A, int kBytes = kVectorBytes>
using Tail = Lanes<A, kBytes, false>;

/// Calls f(i, lanes) for each vector of n values, where i is the index of its first value.
template <class A, int kBytes = kRowBytes, class F>
[[gnu::always_inline]] static inline void each_vector(std::int64_t n, F&& f) {
  constexpr std::int64_t k = kLanes<A, kBytes>;
  std::int64_t i = 0;
  for (; i + k <= n; i += k) f(i, AllLanes<A, kBytes>{});
  if (i < n) f(i, Tail<A, kBytes>{n - i});
}

namespace detail {
/// bf16(float) lane by lane.
template <int kBytes>
static Vector<std::uint16_t, kBytes / 2> narrow(const Vector<float, kBytes>& v) noexcept {
#if defined(__AVX512BF16__)
  // The same except that denormals become zero; threads that compute have none.
  if constexpr (kBytes == 64) return (Vector<std::uint16_t, kBytes / 2>)_mm512_cvtneps_pbh((__m512)v);
#endif
  using Words = Vector<std::uint32_t, kBytes>;
  const Words u = std::bit_cast<Words>(v);
  const Words rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const Words quiet = (u >> 16) | 0x40u;
  const Words is_nan = std::bit_cast<Words>((u & 0x7fffffffu) > 0x7f800000u);
  return __builtin_convertvector((rounded & ~is_nan) | (quiet & is_nan), Vector<std::uint16_t, kBytes / 2>);
}
template <class T, class L>
static std::size_t bytes_of(L lanes) noexcept {
  return static_cast<std::size_t>(lanes.count()) * sizeof(T);
}
}  // namespace detail

// These are noexcept: in a scope that releases memory, g++ ends a block of code at a call that may throw, such as an
// intrinsic or a prefetch, and fuses no product before it with a sum after it.

/// The values at p; bf16 is widened.
template <class T, int kBytes, bool kAll>
static Vector<Acc<T>, kBytes> load(const T* p, Lanes<Acc<T>, kBytes, kAll> lanes) noexcept {
  using A = Acc<T>;
  if constexpr (!std::is_same_v<T, A>) {
    Vector<std::uint16_t, kBytes / 2> half{};
    std::memcpy(&half, p, detail::bytes_of<T>(lanes));
    return std::bit_cast<Vector<A, kBytes>>(__builtin_convertvector(half, Vector<std::uint32_t, kBytes>) << 16);
  } else if constexpr (kAll) {
    return *reinterpret_cast<const typename VectorOf<T, kBytes>::unaligned*>(p);
  } else {
#if defined(__AVX512F__)
    if constexpr (kBytes == 64 && sizeof(T) == 4) return (Vector<T, kBytes>)_mm512_maskz_loadu_ps(lanes.mask(), p);
    if constexpr (kBytes == 64 && sizeof(T) == 8) return (Vector<T, kBytes>)_mm512_maskz_loadu_pd(lanes.mask(), p);
#endif
    Vector<T, kBytes> v{};
    std::memcpy(&v, p, detail::bytes_of<T>(lanes));
    return v;
  }
}
template <class T>
static Vector<Acc<T>> load(const T* p) noexcept {
  return load(p, AllLanes<Acc<T>>{});
}

/// Stores v at p, rounded if p is bf16.
template <class T, int kBytes, bool kAll>
static void store(T* p, const Vector<Acc<T>, kBytes>& v, Lanes<Acc<T>, kBytes, kAll> lanes) noexcept {
  if constexpr (!std::is_same_v<T, Acc<T>>) {
    const auto half = detail::narrow<kBytes>(v);
    std::memcpy(static_cast<void*>(p), &half, detail::bytes_of<T>(lanes));
  } else if constexpr (kAll) {
    *reinterpret_cast<typename VectorOf<T, kBytes>::unaligned*>(p) = v;
  } else {
#if defined(__AVX512F__)
    if constexpr (kBytes == 64 && sizeof(T) == 4) return _mm512_mask_storeu_ps(p, lanes.mask(), (__m512)v);
    if constexpr (kBytes == 64 && sizeof(T) == 8) return _mm512_mask_storeu_pd(p, lanes.mask(), (__m512d)v);
#endif
    std::memcpy(p, &v, detail::bytes_of<T>(lanes));
  }
}
template <class T>
static void store(T* p, const Vector<Acc<T>>& v) noexcept {
  store(p, v, AllLanes<Acc<T>>{});
}

/// Writes v or adds it to what is there: for the lanes of a vector, and for a single value.
template <bool kAdd, class T, int kBytes, bool kAll>
static void put(T* p, const Vector<Acc<T>, kBytes>& v, Lanes<Acc<T>, kBytes, kAll> lanes) noexcept {
  if constexpr (kAdd)
    store(p, load(p, lanes) + v, lanes);
  else
    store(p, v, lanes);
}
template <class T, class A>
static void put(T& to, A value, bool add) noexcept {
  to = add ? T(Acc<T>(to) + Acc<T>(value)) : T(Acc<T>(value));
}

/// v with zeros in the lanes that hold no values.
template <class A, int kBytes, bool kAll>
static Vector<A, kBytes> first(const Vector<A, kBytes>& v, Lanes<A, kBytes, kAll> lanes) noexcept {
  if constexpr (kAll) return v;
  Vector<A, kBytes> number;
  for (int i = 0; i < int(kLanes<A, kBytes>); ++i) number[i] = A(i);
  return number < A(lanes.tail) ? v : Vector<A, kBytes>{};
}

/// The sum of all lanes, by adding halves.
static inline float lane_sum(Vec<float> v) {
  v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  return v[0] + v[1];
}
static inline double lane_sum(Vec<double> v) {
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
  return v[0] + v[1];
}

/// The sum over a row of term(c, lanes), a vector with zeros in the lanes that hold no values. Four partial sums hide
/// the latency of an addition.
template <class A, class F>
static A row_sum(std::int64_t cols, F&& term) {
  Vec<A> s0{}, s1{}, s2{}, s3{};
  std::int64_t c = 0;
  constexpr std::int64_t k = kLanes<A, kRowBytes>;
  constexpr AllLanes<A, kRowBytes> all;
  for (; c + 4 * k <= cols; c += 4 * k) {
    s0 += term(c, all);
    s1 += term(c + k, all);
    s2 += term(c + 2 * k, all);
    s3 += term(c + 3 * k, all);
  }
  for (; c + k <= cols; c += k) s0 += term(c, all);
  if (c < cols) s1 += term(c, Tail<A, kRowBytes>{cols - c});
  return lane_sum((s0 + s1) + (s2 + s3));
}

namespace detail {
/// Elements of a and b in turn: of their lower halves (kFrom = 0) or upper halves (kFrom = half the lanes).
template <class T, int kFrom, int... kAt>
static Vector<T> interleave(Vector<T> a, Vector<T> b, std::integer_sequence<int, kAt...>) {
  return __builtin_shufflevector(a, b, (kFrom + kAt / 2 + kAt % 2 * int(kLanes<T>))...);
}
}  // namespace detail

/// to [kLanes, kLanes] = from [kLanes, kLanes] transposed; row strides in elements. Takes log2(kLanes) rounds, each of
/// which combines row i with row i + kLanes / 2.
template <class T>
static void transpose_square(const T* from, std::int64_t from_row, T* to, std::int64_t to_row) {
  constexpr int kRows = int(kLanes<T>), kHalf = kRows / 2;
  using Lanes = std::make_integer_sequence<int, kRows>;
  std::array<Vector<T>, kRows> a, b;
  for (int i = 0; i < kRows; ++i) a[std::size_t(i)] = load(from + i * from_row);
  for (int round = 1; round < kRows; round *= 2) {
    for (int i = 0; i < kHalf; ++i) {
      b[std::size_t(2 * i)] = detail::interleave<T, 0>(a[std::size_t(i)], a[std::size_t(i + kHalf)], Lanes{});
      b[std::size_t(2 * i + 1)] = detail::interleave<T, kHalf>(a[std::size_t(i)], a[std::size_t(i + kHalf)], Lanes{});
    }
    a = b;
  }
  for (int i = 0; i < kRows; ++i) store(to + i * to_row, a[std::size_t(i)]);
}

}  // namespace normlab::cpu
