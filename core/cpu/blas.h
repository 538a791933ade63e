// The only access to OpenBLAS. It is opened at the first product and then reads OPENBLAS_* variables, so a program
// clears them first: a shell may carry a core type that halves the speed. A CPU that is younger
// than the library gets its oldest kernels; then it is opened again with the widest that both know.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

struct BlasInfo {
  std::string config;   // as OpenBLAS prints it, version first
  std::string core;     // the kernels in use: "Haswell", "Cooperlake", ...
  std::string flavour;  // "pthread" or "openmp"
  std::string wider;    // the kernels for this CPU where the library lacks them, otherwise empty
};

/// Kernels of OpenBLAS that use wider instructions than those of `core` and that a CPU `has` (GCC's names), the widest
/// first. None for cores that this table does not know.
std::vector<const char*> wider_blas_cores(std::string_view core, bool (*has)(const char*));

/// Removes the inherited variables of OpenBLAS and oneDNN. Call before the first product, since both read them when
/// they are opened. OpenBLAS's number of threads is one in any case, because a step's shards are the threads.
void clear_blas_environment();

/// Loads OpenBLAS on the first call, which gemm makes too. Throws EnvironmentError if it is missing, or is a serial
/// build, which is not safe to call from several threads.
const BlasInfo& blas_info();

/// C [m, n] = alpha op(A) op(B) + beta C, row-major, on one thread. op(A) is [m, k], op(B) [k, n]; lda, ldb, ldc are
/// row strides of A, B, C as stored. Throws EnvironmentError like blas_info(), or if the limit on address space leaves
/// no room for this thread's work memory.
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
          const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c,
          std::int64_t ldc);

}  // namespace normlab
