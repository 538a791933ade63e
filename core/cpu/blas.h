// The one door to OpenBLAS. It is opened at run time, at the first product, after inherited OPENBLAS_* variables are
// cleared: a shell may carry a core type that halves the speed, and the library reads them once, when it is loaded.
#pragma once

#include <cstdint>
#include <string>

namespace normlab {

struct BlasInfo {
  std::string config;   // as OpenBLAS prints it, version first
  std::string core;     // the kernels it chose: "Haswell", "Cooperlake", ...
  std::string flavour;  // "pthread" or "openmp"
};

/// Call before the first product to leave the variables of OpenBLAS and oneDNN as inherited (--blas-env keep). The
/// number of threads is one in any case, since the shards of a step are the threads.
void blas_keep_environment();
/// Removes the variables of OpenBLAS and oneDNN, unless they are to be kept. For those who open either of them.
void blas_clear_environment();

/// Loads OpenBLAS on the first call, which gemm makes too. Throws EnvironmentError where it is missing, or serial: that
/// build is not safe from several threads.
const BlasInfo& blas_info();

/// C [m, n] = alpha op(A) op(B) + beta C, row-major, one thread. op(A) is [m, k], op(B) [k, n]; lda, ldb, ldc are row
/// strides of A, B, C as stored. EnvironmentError as blas_info(), or where the limit on address space leaves no room
/// for the work memory of this thread.
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
          const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c,
          std::int64_t ldc);

}  // namespace normlab
