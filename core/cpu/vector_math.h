// exp, log, tanh and others over arrays, by glibc's libmvec (at most 4 ulp) where it has them, otherwise one by one. x
// and y may be the same. An element's result does not depend on its position in the array.
#pragma once

#include <cstdint>

namespace normlab::cpu {

#define NORMLAB_VECTOR_FUNCTIONS(F) F(exp) F(tanh) F(erf) F(atan) F(log) F(log1p) F(expm1) F(sin) F(cos)
/// vector_exp(n, x, y) and so forth.
#define NORMLAB_VECTOR_FUNCTION(name)                           \
  void vector_##name(std::int64_t n, const float* x, float* y); \
  void vector_##name(std::int64_t n, const double* x, double* y);
NORMLAB_VECTOR_FUNCTIONS(NORMLAB_VECTOR_FUNCTION)

/// "libmvec, 16 floats" or "scalar": for the log and for the test that vector functions are called.
const char* vector_math_kind();

}  // namespace normlab::cpu
