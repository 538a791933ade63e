// Products of bf16 matrices with float sums, either by oneDNN with the CPU's bf16 instructions or by sgemm on widened
// copies. Both round at the same places and differ only in the order of float sums.
#pragma once

#include <cstdint>
#include <string>

#include "core/cpu/instruction_set.h"
#include "core/dtype.h"

namespace normlab {

/// C [batch][m, n] = op(A) op(B) (+ bias) (+ C), row-major, with consecutive matrices in a batch. op(A) is [m, k],
/// op(B) [k, n]; `transpose_a`: A is stored [k, m], `transpose_b`: B is stored [n, k].
struct Bf16Product {
  std::int64_t m, n, k, batch = 1;
  bool transpose_a = false, transpose_b = false;
  DType to = DType::f32;  // type of C: f32, or bf16, rounded once at the end
  bool add = false;       // adds to C
  bool bias = false;      // adds a float per column; only for batch 1
  bool operator==(const Bf16Product&) const = default;
};

/// Runs on one thread. `bias` is null if the product has none. C is `float*` or `bf16*` according to `to`. With oneDNN
/// this creates the product's primitive, unless bf16_prepare() has done so.
void bf16_product(Bf16Products kind, const Bf16Product& product, const bf16* a, const bf16* b, const float* bias,
                  void* c);

/// Creates oneDNN's primitive (generated code, about a millisecond) once per process. Not for use within a step.
void bf16_prepare(const Bf16Product& product);
/// Creates what this thread needs to run the existing primitives.
void bf16_prepare_thread();
/// The number of primitives created so far.
std::int64_t bf16_primitives_made();

/// Throws EnvironmentError, which names "bf16_emulated", if the CPU has neither AVX512-BF16 nor AMX-BF16, or if oneDNN
/// was built for a runtime that starts its own threads. Only tests pass another `has`.
void require_native_bf16(bool (*has)(const char*) = cpu_has);

/// "2.6.3, avx512_core_bf16": version and instruction set, which determine the bits of results.
std::string onednn_info();

}  // namespace normlab
