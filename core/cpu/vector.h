// Vectors as wide as the machine's registers, by the compilers' vector extension: one source for SSE, AVX2 and AVX-512.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace normlab::cpu {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64, kVectorRegisters = 32;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32, kVectorRegisters = 16;
#else
inline constexpr int kVectorBytes = 16, kVectorRegisters = 16;
#endif

template <class T, int kBytes = kVectorBytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(kBytes)));
  typedef T unaligned __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
};
template <class T, int kBytes = kVectorBytes>
using Vector = typename VectorOf<T, kBytes>::type;
template <class T>
inline constexpr std::int64_t kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T>
Vector<T> load(const T* p) {
  return *reinterpret_cast<const typename VectorOf<T>::unaligned*>(p);
}
template <class T>
void store(T* p, Vector<T> v) {
  *reinterpret_cast<typename VectorOf<T>::unaligned*>(p) = v;
}

/// The n <= kLanes values at p with zeros behind them, and the first n lanes to p; nothing beyond is touched.
template <class T>
Vector<T> load_first(const T* p, std::int64_t n) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return (Vector<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
  else
    return (Vector<T>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << n) - 1), p);
#else
  Vector<T> v = {};
  std::memcpy(&v, p, static_cast<std::size_t>(n) * sizeof(T));
  return v;
#endif
}
template <class T>
void store_first(T* p, Vector<T> v, std::int64_t n) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), (__m512)v);
  else
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << n) - 1), (__m512d)v);
#else
  std::memcpy(p, &v, static_cast<std::size_t>(n) * sizeof(T));
#endif
}

/// v with zeros behind its first n lanes.
template <class T>
Vector<T> keep_first(Vector<T> v, std::int64_t n) {
  Vector<T> number;
  for (int i = 0; i < int(kLanes<T>); ++i) number[i] = T(i);
  return number < T(n) ? v : Vector<T>{};
}

namespace detail {
/// Elements of a and b in turn: of their lower halves (kFrom = 0) or upper halves (kFrom = half the lanes).
template <class T, int kFrom, int... kAt>
Vector<T> interleave(Vector<T> a, Vector<T> b, std::integer_sequence<int, kAt...>) {
  return __builtin_shufflevector(a, b, (kFrom + kAt / 2 + kAt % 2 * int(kLanes<T>))...);
}
}  // namespace detail

/// to [kLanes, kLanes] = from [kLanes, kLanes] transposed; row strides in elements. log2(kLanes) rounds, in each of
/// which row i meets row i + kLanes / 2.
template <class T>
void transpose_square(const T* from, std::int64_t from_row, T* to, std::int64_t to_row) {
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
