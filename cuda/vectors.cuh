// Values next to each other, 16 bytes at once where they lie so.
#pragma once

#include <cstring>

#include "cuda/kernel.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// How many values of T 16 bytes are.
template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

/// Whether rows of `cols` values can be read and written in whole vectors; empty pointers do not matter.
template <class T>
bool in_vectors(std::int64_t cols, std::initializer_list<const T*> pointers) {
  bool whole = cols % kVector<T> == 0;
  for (const T* p : pointers) whole &= reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
  return whole;
}

#ifdef NORMLAB_CUDA_EMULATED  // whose checks go by values
template <int V, class T>
void load(const T* from, T (&to)[V]) {
  for (int i = 0; i < V; ++i) to[i] = from[i];
}
template <int V, class T>
void store(T* to, const T (&from)[V]) {
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
template <int V, class T>
__device__ inline void load(const T* from, T (&to)[V]) {
  if constexpr (V == 1) {
    to[0] = from[0];
  } else {
    const uint4 all = *reinterpret_cast<const uint4*>(from);
    static_assert(sizeof to == sizeof all);
    memcpy(to, &all, sizeof all);
  }
}
template <int V, class T>
__device__ inline void store(T* to, const T (&from)[V]) {
  if constexpr (V == 1) {
    to[0] = from[0];
  } else {
    uint4 all;
    static_assert(sizeof from == sizeof all);
    memcpy(&all, from, sizeof all);
    *reinterpret_cast<uint4*>(to) = all;
  }
}
/// A vector that stays in as few registers as it has words.
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

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
