// A product that no compiler merges with the sum it goes into.
#pragma once

namespace normlab {

/// `value`, rounded to its type: kernels fuse multiply-add wherever the compiler sees one, and here single bits decide
/// which whole number a pixel becomes. Vectorises.
template <class T>
inline T rounded(T value) {
#if defined(__clang__)
  return __arithmetic_fence(value);
#else
  return __builtin_assoc_barrier(value);
#endif
}

}  // namespace normlab
