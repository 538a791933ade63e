// Products of bf16 matrices with sums in float: by oneDNN, whose kernels use the CPU's bf16 instructions, or by sgemm
// on widened copies. Both round at the same places, so they differ by the order of float sums alone.
#pragma once

#include <cstdint>
#include <string>

#include "core/cpu/instruction_set.h"
#include "core/dtype.h"

namespace normlab {

/// C [batch][m, n] = op(A) op(B) (+ bias) (+ C), row-major, one matrix of a batch behind the other. op(A) is [m, k],
/// op(B) [k, n]; `transpose_a`: A is stored [k, m], `transpose_b`: B is stored [n, k]. lda, ldb, ldc are row strides of
/// the matrices as stored, 0 where rows follow each other directly, which is the fast case.
struct Bf16Product {
  std::int64_t m, n, k, batch = 1;
  bool transpose_a = false, transpose_b = false;
  DType to = DType::f32;  // of C: f32, or bf16, into which the whole right side is rounded once
  bool add = false;       // C is added to
  bool bias = false;      // a float for each column is added; for batch 1
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool operator==(const Bf16Product&) const = default;
};

/// One thread a call; `bias` may be null where the product has none. C is `float*` or `bf16*` as `to` says. By oneDNN
/// it makes the product's primitive, unless bf16_prepare() has.
void bf16_product(Bf16Products how, const Bf16Product& product, const bf16* a, const bf16* b, const float* bias,
                  void* c);

/// Makes oneDNN's primitive (generated code, a millisecond) once for the whole process. Not for a step.
void bf16_prepare(const Bf16Product& product);
/// Makes what this thread needs besides to run those that there are.
void bf16_prepare_thread();
/// How many there are.
std::int64_t bf16_primitives_made();

/// Throws EnvironmentError, which names "bf16_emulated", where the CPU has neither AVX512-BF16 nor AMX-BF16, or where
/// oneDNN was built for a runtime that starts threads of its own. `has` is cpu_has but in tests.
void require_native_bf16(bool (*has)(const char*) = cpu_has);

/// "2.6.3, avx512_core_bf16": version and instruction set, which decide bits.
std::string onednn_info();

}  // namespace normlab
