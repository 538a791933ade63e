#include "core/cpu/vector_math.h"

#include <cmath>
#include <cstring>

// glibc's header declares these symbols only under -ffast-math, so this file declares them itself. Their names
// contain instruction set (b SSE, d AVX2, e AVX-512), lanes and function (x86-64 vector ABI). tanh, erf, atan,
// log1p and expm1 exist since glibc 2.35.
#if defined(__x86_64__) && defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 35)
#define NORMLAB_LIBMVEC 1
#include <immintrin.h>
#endif
#endif

namespace normlab::cpu {

#if defined(NORMLAB_LIBMVEC)
#if defined(__AVX512F__)
using Floats = __m512;
using Doubles = __m512d;
#define NORMLAB_VECTOR_F(name) _ZGVeN16v_##name##f
#define NORMLAB_VECTOR_D(name) _ZGVeN8v_##name
#elif defined(__AVX2__)
using Floats = __m256;
using Doubles = __m256d;
#define NORMLAB_VECTOR_F(name) _ZGVdN8v_##name##f
#define NORMLAB_VECTOR_D(name) _ZGVdN4v_##name
#else
using Floats = __m128;
using Doubles = __m128d;
#define NORMLAB_VECTOR_F(name) _ZGVbN4v_##name##f
#define NORMLAB_VECTOR_D(name) _ZGVbN2v_##name
#endif

#define NORMLAB_DECLARE(name)            \
  Floats NORMLAB_VECTOR_F(name)(Floats); \
  Doubles NORMLAB_VECTOR_D(name)(Doubles);
extern "C" {
NORMLAB_VECTOR_FUNCTIONS(NORMLAB_DECLARE)
}

namespace {
template <class Vector, Vector (*f)(Vector), class T>
void apply(std::int64_t n, const T* x, T* y) {
  constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(T);
  std::int64_t i = 0;
  Vector v;
  for (; i + kLanes <= n; i += kLanes) {
    std::memcpy(&v, x + i, sizeof v);
    v = f(v);
    std::memcpy(y + i, &v, sizeof v);
  }
  if (i < n) {  // the tail goes through the same function, padded
    T tail[kLanes] = {};
    std::memcpy(tail, x + i, static_cast<std::size_t>(n - i) * sizeof(T));
    std::memcpy(&v, tail, sizeof v);
    v = f(v);
    std::memcpy(tail, &v, sizeof v);
    std::memcpy(y + i, tail, static_cast<std::size_t>(n - i) * sizeof(T));
  }
}
}  // namespace

#define NORMLAB_DEFINE(name)                                                                                       \
  void vector_##name(std::int64_t n, const float* x, float* y) { apply<Floats, NORMLAB_VECTOR_F(name)>(n, x, y); } \
  void vector_##name(std::int64_t n, const double* x, double* y) { apply<Doubles, NORMLAB_VECTOR_D(name)>(n, x, y); }
const char* vector_math_kind() {
  return sizeof(Floats) == 64 ? "libmvec, 16 floats" : sizeof(Floats) == 32 ? "libmvec, 8 floats" : "libmvec, 4 floats";
}
#else
#define NORMLAB_DEFINE_FOR(name, T)                              \
  void vector_##name(std::int64_t n, const T* x, T* y) {         \
    for (std::int64_t i = 0; i < n; ++i) y[i] = std::name(x[i]); \
  }
#define NORMLAB_DEFINE(name) NORMLAB_DEFINE_FOR(name, float) NORMLAB_DEFINE_FOR(name, double)
const char* vector_math_kind() { return "scalar"; }
#endif

NORMLAB_VECTOR_FUNCTIONS(NORMLAB_DEFINE)

}  // namespace normlab::cpu
