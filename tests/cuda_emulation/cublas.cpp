// cuBLAS's products by OpenBLAS: float and double as they are, bf16 widened and rounded at the end.
#include "tests/cuda_emulation/include/cublas_v2.h"

#include <array>
#include <cstring>
#include <vector>

#include "tests/cuda_emulation/matrix.h"

using namespace normlab;
using namespace normlab::emulation;

struct EmulatedCublas {
  cudaStream_t stream = nullptr;
};

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new EmulatedCublas;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, std::size_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasGetProperty(libraryPropertyType, int* value) {
  *value = 0;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }

static cublasStatus_t gemm_now(cublasHandle_t, cublasOperation_t of_a, cublasOperation_t of_b, std::int64_t m,
                               std::int64_t n, std::int64_t k, const void* alpha, const void* a, cudaDataType_t a_type,
                               std::int64_t lda, const void* b, cudaDataType_t b_type, std::int64_t ldb,
                               const void* beta, void* c, cudaDataType_t c_type, std::int64_t ldc,
                               cublasComputeType_t compute, cublasGemmAlgo_t) {
  const bool ta = of_a == CUBLAS_OP_T, tb = of_b == CUBLAS_OP_T;
  const Matrix ma{a, a_type, ta ? k : m, ta ? m : k, lda}, mb{b, b_type, tb ? n : k, tb ? k : n, ldb};
  const Matrix mc{c, c_type, m, n, ldc};
  const Work work = begin_work("cuBLAS");
  require(work, "cuBLAS", "A", ma);
  require(work, "cuBLAS", "B", mb);
  require(work, "cuBLAS", "C", mc, true);
  const bool bf16_in = a_type == CUDA_R_16BF;
  // The combinations that cuBLAS has.
  if (a_type != b_type || (compute == CUBLAS_COMPUTE_64F) != (a_type == CUDA_R_64F) ||
      (a_type != c_type && !(bf16_in && c_type == CUDA_R_32F)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (compute == CUBLAS_COMPUTE_64F) {
    columns_gemm(ta, tb, m, n, k, *static_cast<const double*>(alpha), static_cast<const double*>(a), lda,
                 static_cast<const double*>(b), ldb, *static_cast<const double*>(beta), static_cast<double*>(c), ldc);
    return CUBLAS_STATUS_SUCCESS;
  }
  const float by = *static_cast<const float*>(alpha), kept = *static_cast<const float*>(beta);
  if (!bf16_in) {
    columns_gemm(ta, tb, m, n, k, by, static_cast<const float*>(a), lda, static_cast<const float*>(b), ldb, kept,
                 static_cast<float*>(c), ldc);
    return CUBLAS_STATUS_SUCCESS;
  }
  const std::vector<float> wa = widened(ma), wb = widened(mb);
  // beta 0: what is there is not read, NaN or not.
  std::vector<float> wc = kept != 0 ? widened(mc) : std::vector<float>(static_cast<std::size_t>(m * n));
  columns_gemm(ta, tb, m, n, k, by, wa.data(), ma.rows, wb.data(), mb.rows, kept, wc.data(), m);
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < m; ++i) {
      const float value = wc[static_cast<std::size_t>(j * m + i)];
      if (c_type == CUDA_R_16BF)
        static_cast<bf16*>(c)[j * ldc + i] = bf16(value);
      else
        static_cast<float*>(c)[j * ldc + i] = value;
    }
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t gemm_in_order(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b,
                                    std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha, const void* a,
                                    cudaDataType_t a_type, std::int64_t lda, const void* b, cudaDataType_t b_type,
                                    std::int64_t ldb, const void* beta, void* c, cudaDataType_t c_type,
                                    std::int64_t ldc, cublasComputeType_t compute, cublasGemmAlgo_t how) {
  if (!capturing(handle->stream)) {
    cublasStatus_t status{};
    in_order(handle->stream, [&] {
      status = gemm_now(handle, of_a, of_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc,
                        compute, how);
    });
    return status;
  }
  // The factors are taken as they are now.
  const std::size_t bytes = compute == CUBLAS_COMPUTE_64F ? sizeof(double) : sizeof(float);
  std::array<double, 2> factors{};
  std::memcpy(&factors[0], alpha, bytes);
  std::memcpy(&factors[1], beta, bytes);
  in_order(handle->stream, [=] {
    const cublasStatus_t status = gemm_now(handle, of_a, of_b, m, n, k, &factors[0], a, a_type, lda, b, b_type, ldb,
                                           &factors[1], c, c_type, ldc, compute, how);
    if (status != CUBLAS_STATUS_SUCCESS) throw emulation::Fault(concat("cuBLAS in a graph: status ", int(status)));
  });
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b,
                                             std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha,
                                             const void* a, cudaDataType_t a_type, std::int64_t lda,
                                             long long int stride_a, const void* b, cudaDataType_t b_type,
                                             std::int64_t ldb, long long int stride_b, const void* beta, void* c,
                                             cudaDataType_t c_type, std::int64_t ldc, long long int stride_c,
                                             std::int64_t batch, cublasComputeType_t compute, cublasGemmAlgo_t how) {
  if (emulation::error_at("") != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  const auto at = [](const void* p, cudaDataType_t type, long long int stride, std::int64_t i) {
    const Matrix one{p, type, 1, 1, 1};
    return static_cast<const char*>(p) + stride * i * static_cast<long long int>(one.value_bytes());
  };
  for (std::int64_t i = 0; i < batch; ++i) {
    const cublasStatus_t status = gemm_in_order(
        handle, of_a, of_b, m, n, k, alpha, at(a, a_type, stride_a, i), a_type, lda, at(b, b_type, stride_b, i), b_type,
        ldb, beta, const_cast<char*>(at(c, c_type, stride_c, i)), c_type, ldc, compute, how);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}
