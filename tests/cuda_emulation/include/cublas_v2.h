// What of cuBLAS is used; the products themselves are OpenBLAS's.
#pragma once

#include <cstdint>

#include "tests/cuda_emulation/runtime.h"

struct EmulatedCublas;
using cublasHandle_t = EmulatedCublas*;
enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasMath_t { CUBLAS_DEFAULT_MATH = 0, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16BF = 14 };

cublasStatus_t cublasCreate_v2(cublasHandle_t*);
cublasStatus_t cublasDestroy_v2(cublasHandle_t);
cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t);
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, std::size_t);
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t);
enum libraryPropertyType { MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL };
cublasStatus_t cublasGetProperty(libraryPropertyType, int*);
cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t, cublasOperation_t, cublasOperation_t, std::int64_t m,
                                             std::int64_t n, std::int64_t k, const void* alpha, const void* a,
                                             cudaDataType_t, std::int64_t lda, long long int stride_a, const void* b,
                                             cudaDataType_t, std::int64_t ldb, long long int stride_b, const void* beta,
                                             void* c, cudaDataType_t, std::int64_t ldc, long long int stride_c,
                                             std::int64_t batch, cublasComputeType_t, cublasGemmAlgo_t);
