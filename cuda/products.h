// Matrix products by cuBLAS, which is loaded with the first backend, so that a binary with GPU kernels also starts
// where it is not installed.
#pragma once

#include <cublas_v2.h>

#include "core/dtype.h"
#include "cuda/memory.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// C [batch][m, n] = op(A) op(B) (+ C), row-major. op(A) is [m, k], op(B) [k, n]; `transpose_a`: A is stored [k, m],
/// `transpose_b`: B is stored [n, k]. lda, ldb, ldc are row strides of the matrices as stored, 0 for contiguous rows.
/// stride_a, .. are the strides between matrices of a batch.
struct Product {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  bool add = false;
  bool tf32 = false;  // as in LtProduct
  double alpha = 1.0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
};

class Products {
 public:
  /// Throws EnvironmentError if cuBLAS is missing or cannot start.
  explicit Products(const Stream& stream);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// The library's version: "13.0.2".
  static std::string version();

  /// `in` is the type of A and B, `out` of C: float, double, or bf16 into bf16 or float. Sums are float, or double for
  /// double, and each value is rounded once.
  void operator()(const char* op, const Product& p, DType in, const void* a, const void* b, DType out, void* c);

 private:
  const Stream& stream_;
  cublasHandle_t handle_ = nullptr;
  Buffer workspace_;
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
