// Adjacent values, 16 bytes at once where possible.
#pragma once

#include <cstring>
#include <type_traits>

#include "cuda/tensor_core.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// The number of values of T in 16 bytes.
template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

/// Whether rows of `cols` values can be read and written in whole vectors; null pointers do not matter.
template <class T>
bool in_vectors(std::int64_t cols, std::initializer_list<const T*> pointers) {
  bool whole = cols % kVector<T> == 0;
  for (const T* p : pointers) whole &= reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
  return whole;
}

/// Whether all are aligned to 16 bytes.
inline bool aligned(std::initializer_list<const void*> pointers) {
  bool all = true;
  for (const void* p : pointers) all &= reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
  return all;
}

/// The size of the pieces in which `bytes` adjacent bytes are moved, which is also their alignment.
constexpr int bytes_of_piece(std::size_t bytes) {
  return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 2;
}

#ifdef NORMLAB_CUDA_EMULATED  // which checks single values
template <int V, class T>
void check_place(const T* address) {
  if (V > 1 && reinterpret_cast<std::uintptr_t>(address) % bytes_of_piece(V * sizeof(T)) != 0)
    emulation::fault(concat("a vector of ", V * sizeof(T), " bytes does not begin at a multiple of a piece"));
}
template <int V, class T>
void load(const T* from, T (&to)[V]) {
  check_place<V>(from);
  for (int i = 0; i < V; ++i) to[i] = from[i];
}
template <int V, class T>
void store(T* to, const T (&from)[V]) {
  check_place<V>(to);
  for (int i = 0; i < V; ++i) to[i] = from[i];
}
template <class T>
struct Packed {
  T values[kVector<T>];
};
template <class T>
Packed<T> load_packed(const T* from) {
  Packed<T> to;
  load(from, to.values);
  return to;
}
template <class T>
void unpack(const Packed<T>& from, T (&to)[kVector<T>]) {
  load(from.values, to);
}
#else
template <int kPiece>
using Piece = std::conditional_t<
    kPiece == 16, uint4,
    std::conditional_t<kPiece == 8, uint2, std::conditional_t<kPiece == 4, unsigned, std::uint16_t> > >;

// Global stores as instructions, since nvcc splits the copy of a struct into one store per member.
__device__ inline void store_whole(void* to, uint4 part) {
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};"
               :
               : "l"(to), "r"(part.x), "r"(part.y), "r"(part.z), "r"(part.w)
               : "memory");
}
__device__ inline void store_whole(void* to, uint2 part) {
  asm volatile("st.global.v2.u32 [%0], {%1,%2};" : : "l"(to), "r"(part.x), "r"(part.y) : "memory");
}
template <class Part>
__device__ inline void store_whole(void* to, Part part) {
  *static_cast<Part*>(to) = part;
}

template <int V, class T>
__device__ inline void load(const T* from, T (&to)[V]) {
  if constexpr (V == 1) {
    to[0] = from[0];
  } else {
    using Part = Piece<bytes_of_piece(sizeof to)>;
    static_assert(sizeof to % sizeof(Part) == 0);
    constexpr int kValues = sizeof(Part) / sizeof(T);
    for (int i = 0; i < V; i += kValues) {
      const Part part = *reinterpret_cast<const Part*>(from + i);
      memcpy(to + i, &part, sizeof part);
    }
  }
}
template <int V, class T>
__device__ inline void store(T* to, const T (&from)[V]) {
  if constexpr (V == 1) {
    to[0] = from[0];
  } else {
    using Part = Piece<bytes_of_piece(sizeof from)>;
    static_assert(sizeof from % sizeof(Part) == 0);
    constexpr int kValues = sizeof(Part) / sizeof(T);
    for (int i = 0; i < V; i += kValues) {
      Part part;
      memcpy(&part, from + i, sizeof part);
      store_whole(to + i, part);
    }
  }
}
/// A vector in as few registers as it has words.
template <class T>
struct Packed {
  uint4 words;
};
template <class T>
__device__ inline Packed<T> load_packed(const T* from) {
  return {*reinterpret_cast<const uint4*>(from)};
}
template <class T>
__device__ inline void unpack(const Packed<T>& from, T (&to)[kVector<T>]) {
  memcpy(to, &from.words, sizeof from.words);
}
#endif

/// to (+)= value, rounded; in bf16 by the instruction for pairs.
template <int V, class T>
__device__ inline void put_all(T* to, Acc<T> (&value)[V], bool add = false) {
  T rounded[V];
  if (add) {
    load(to, rounded);
    for (int k = 0; k < V; ++k) value[k] = Acc<T>(rounded[k]) + value[k];
  }
  if constexpr (std::is_same_v<T, bf16> && V % 2 == 0) {
    unsigned pairs[V / 2];
    for (int k = 0; k < V; k += 2) pairs[k / 2] = pack(value[k], value[k + 1]);
    memcpy(static_cast<void*>(rounded), pairs, sizeof rounded);
  } else {
    for (int k = 0; k < V; ++k) rounded[k] = T(value[k]);
  }
  store(to, rounded);
}

/// a / b and a % b of non-negative numbers, in 32 bits where they suffice, which is a fraction of the work.
__device__ inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  return (a | b) >> 32 == 0 ? static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b) : a / b;
}
__device__ inline std::int64_t remainder(std::int64_t a, std::int64_t b) {
  return (a | b) >> 32 == 0 ? static_cast<std::uint32_t>(a) % static_cast<std::uint32_t>(b) : a % b;
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
