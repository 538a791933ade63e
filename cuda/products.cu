#include "cuda/products.h"

#include "core/error.h"
#include "cuda/library.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// The functions used, with their names in the library.
struct Cublas {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasGetProperty) property;
  decltype(&cublasGemmEx_64) gemm;
  decltype(&cublasGemmStridedBatchedEx_64) gemm_batched;
};

#ifdef NORMLAB_CUDA_EMULATED
Cublas open() {
  return {cublasCreate_v2,   cublasDestroy_v2,  cublasSetStream_v2, cublasSetWorkspace_v2,
          cublasSetMathMode, cublasGetProperty, cublasGemmEx_64,    cublasGemmStridedBatchedEx_64};
}
#else
Cublas open() {
  const Library library("cublas");
  Cublas c{};
  library.find("cublasCreate_v2", c.create);
  library.find("cublasDestroy_v2", c.destroy);
  library.find("cublasSetStream_v2", c.set_stream);
  library.find("cublasSetWorkspace_v2", c.set_workspace);
  library.find("cublasSetMathMode", c.set_math_mode);
  library.find("cublasGetProperty", c.property);
  library.find("cublasGemmEx_64", c.gemm);
  library.find("cublasGemmStridedBatchedEx_64", c.gemm_batched);
  return c;
}
#endif

const Cublas& cublas() {
  static const Cublas instance = open();
  return instance;
}

void check(const char* op, cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw EnvironmentError(concat(op, ": cuBLAS failed with status ", static_cast<int>(status)));
}

}  // namespace

Products::Products(const Stream& stream) : stream_(stream), workspace_(stream) {
  constexpr std::int64_t kWorkspace = std::int64_t{32} << 20;  // NVIDIA's advice for Hopper
  check("cuBLAS", cublas().create(&handle_));
  check("cuBLAS", cublas().set_stream(handle_, stream.handle()));
  // A workspace of our own, so that no call allocates and equal calls give equal bits.
  check("cuBLAS", cublas().set_workspace(handle_, workspace_.get<char>(kWorkspace), kWorkspace));
  check("cuBLAS",
        cublas().set_math_mode(handle_, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                                                  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
}

std::string Products::version() {
  int major = 0, minor = 0, patch = 0;
  check("cuBLAS", cublas().property(MAJOR_VERSION, &major));
  check("cuBLAS", cublas().property(MINOR_VERSION, &minor));
  check("cuBLAS", cublas().property(PATCH_LEVEL, &patch));
  return concat(major, ".", minor, ".", patch);
}

Products::~Products() {
  if (handle_) cublas().destroy(handle_);
}

void Products::operator()(const char* op, const Product& p, DType in, const void* a, const void* b, DType out,
                          void* c) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  const std::int64_t lda = p.lda ? p.lda : p.transpose_a ? p.m : p.k;
  const std::int64_t ldb = p.ldb ? p.ldb : p.transpose_b ? p.k : p.n;
  const std::int64_t ldc = p.ldc ? p.ldc : p.n;
  // cuBLAS is column-major, where our rows are the transposed matrix: C^T = op(B)^T op(A)^T.
  const cublasOperation_t of_a = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t of_b = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const bool wide = in == DType::f64;
  const double alpha64 = p.alpha, beta64 = p.add ? 1.0 : 0.0;
  const float alpha32 = static_cast<float>(p.alpha), beta32 = p.add ? 1.0f : 0.0f;
  const void* alpha = wide ? static_cast<const void*>(&alpha64) : &alpha32;
  const void* beta = wide ? static_cast<const void*>(&beta64) : &beta32;
  const cublasComputeType_t compute = wide                         ? CUBLAS_COMPUTE_64F
                                      : p.tf32 && in == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                   : CUBLAS_COMPUTE_32F;
  const cudaDataType_t from = data_type(in), to = data_type(out);
  if (p.batch == 1)
    check(op, cublas().gemm(handle_, of_b, of_a, p.n, p.m, p.k, alpha, b, from, ldb, a, from, lda, beta, c, to, ldc,
                            compute, CUBLAS_GEMM_DEFAULT));
  else
    check(op, cublas().gemm_batched(handle_, of_b, of_a, p.n, p.m, p.k, alpha, b, from, ldb, p.stride_b, a, from, lda,
                                    p.stride_a, beta, c, to, ldc, p.stride_c, p.batch, compute, CUBLAS_GEMM_DEFAULT));
  stream_.launched(op);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
