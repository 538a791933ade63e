#include "core/cpu/vector_math.h"

#include <cmath>
#include <cstring>

// glibc's header declares these symbols only under -ffast-math, so this file declares them itself. Their names
// contain instruction set (b SSE, d AVX2, e AVX-512), lanes and function (x86-64 vector ABI). tanh, erf and atan
// exist since glibc 2.35.
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

extern "C" {
Floats NORMLAB_VECTOR_F(exp)(Floats);
Floats NORMLAB_VECTOR_F(tanh)(Floats);
Floats NORMLAB_VECTOR_F(erf)(Floats);
Floats NORMLAB_VECTOR_F(atan)(Floats);
Doubles NORMLAB_VECTOR_D(exp)(Doubles);
Doubles NORMLAB_VECTOR_D(tanh)(Doubles);
Doubles NORMLAB_VECTOR_D(erf)(Doubles);
Doubles NORMLAB_VECTOR_D(atan)(Doubles);
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

void vector_exp(std::int64_t n, const float* x, float* y) { apply<Floats, NORMLAB_VECTOR_F(exp)>(n, x, y); }
void vector_exp(std::int64_t n, const double* x, double* y) { apply<Doubles, NORMLAB_VECTOR_D(exp)>(n, x, y); }
void vector_tanh(std::int64_t n, const float* x, float* y) { apply<Floats, NORMLAB_VECTOR_F(tanh)>(n, x, y); }
void vector_tanh(std::int64_t n, const double* x, double* y) { apply<Doubles, NORMLAB_VECTOR_D(tanh)>(n, x, y); }
void vector_erf(std::int64_t n, const float* x, float* y) { apply<Floats, NORMLAB_VECTOR_F(erf)>(n, x, y); }
void vector_erf(std::int64_t n, const double* x, double* y) { apply<Doubles, NORMLAB_VECTOR_D(erf)>(n, x, y); }
void vector_atan(std::int64_t n, const float* x, float* y) { apply<Floats, NORMLAB_VECTOR_F(atan)>(n, x, y); }
void vector_atan(std::int64_t n, const double* x, double* y) { apply<Doubles, NORMLAB_VECTOR_D(atan)>(n, x, y); }

const char* vector_math_kind() {
  return sizeof(Floats) == 64 ? "libmvec, 16 floats" : sizeof(Floats) == 32 ? "libmvec, 8 floats" : "libmvec, 4 floats";
}
#else
namespace {
template <class T, class F>
void apply(std::int64_t n, const T* x, T* y, F&& f) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}
}  // namespace

void vector_exp(std::int64_t n, const float* x, float* y) {
  apply(n, x, y, [](float v) { return std::exp(v); });
}
void vector_exp(std::int64_t n, const double* x, double* y) {
  apply(n, x, y, [](double v) { return std::exp(v); });
}
void vector_tanh(std::int64_t n, const float* x, float* y) {
  apply(n, x, y, [](float v) { return std::tanh(v); });
}
void vector_tanh(std::int64_t n, const double* x, double* y) {
  apply(n, x, y, [](double v) { return std::tanh(v); });
}
void vector_erf(std::int64_t n, const float* x, float* y) {
  apply(n, x, y, [](float v) { return std::erf(v); });
}
void vector_erf(std::int64_t n, const double* x, double* y) {
  apply(n, x, y, [](double v) { return std::erf(v); });
}
void vector_atan(std::int64_t n, const float* x, float* y) {
  apply(n, x, y, [](float v) { return std::atan(v); });
}
void vector_atan(std::int64_t n, const double* x, double* y) {
  apply(n, x, y, [](double v) { return std::atan(v); });
}

const char* vector_math_kind() { return "scalar"; }
#endif

}  // namespace normlab::cpu
