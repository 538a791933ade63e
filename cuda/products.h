// Matrix products by cuBLAS, which is loaded with the first backend, so that a binary with GPU kernels also starts
// where it is not installed.
#pragma once

#include <cublas_v2.h>

#include "cuda/lt_products.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

class Products {
 public:
  /// Throws EnvironmentError if cuBLAS is missing or cannot start.
  explicit Products(const Stream& stream);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// The library's version: "13.0.2".
  static std::string version();

  /// Without an epilogue: float, double, or bf16 into bf16 or float. Sums are float, or double for double, and each value
  /// is rounded once.
  void operator()(const char* op, const LtProduct& p, const LtOperands& with);

 private:
  const Stream& stream_;
  cublasHandle_t handle_ = nullptr;
  Buffer workspace_;
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
