#include "cuda/products.h"

#include "core/error.h"
#include "cuda/library.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// The functions used, with their names in the library.
// clang-format off
#define NORMLAB_CUBLAS(F) \
  F(create, cublasCreate_v2) F(destroy, cublasDestroy_v2) F(set_stream, cublasSetStream_v2) \
  F(set_workspace, cublasSetWorkspace_v2) F(set_math_mode, cublasSetMathMode) F(property, cublasGetProperty) \
  F(gemm, cublasGemmStridedBatchedEx_64)
// clang-format on
struct Cublas {
  NORMLAB_CUBLAS(NORMLAB_LIBRARY_MEMBER)
  explicit Cublas(const Library& library = Library("cublas")) { NORMLAB_CUBLAS(NORMLAB_LIBRARY_FIND) }
};

const Cublas& cublas() {
  static const Cublas instance;
  return instance;
}

void check(const char* op, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  NORMLAB_CUDA_NAMESPACE::check(op, cudaGetLastError());  // where the GPU is at fault, cuBLAS does not say so
  throw EnvironmentError(concat(op, ": cuBLAS failed with status ", static_cast<int>(status)));
}

}  // namespace

Products::Products(const Stream& stream) : stream_(stream), workspace_("cuBLAS", stream) {
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

void Products::operator()(const char* op, const LtProduct& p, const LtOperands& with) {
  if (p.m == 0 || p.n == 0) return;
  // cuBLAS is column-major, where our rows are the transposed matrix: C^T = op(B)^T op(A)^T.
  const cublasOperation_t of_a = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t of_b = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const bool wide = p.in == DType::f64;
  const double alpha64 = with.scale, beta64 = p.add ? with.kept : 0.0;
  const auto alpha32 = static_cast<float>(alpha64), beta32 = static_cast<float>(beta64);
  const void* alpha = wide ? static_cast<const void*>(&alpha64) : &alpha32;
  const void* beta = wide ? static_cast<const void*>(&beta64) : &beta32;
  const cublasComputeType_t compute = wide                           ? CUBLAS_COMPUTE_64F
                                      : p.tf32 && p.in == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                     : CUBLAS_COMPUTE_32F;
  const cudaDataType_t from = data_type(p.in), to = data_type(p.out);
  const auto stride = [](std::int64_t rows, std::int64_t cols) { return stride_in_batch(rows * cols); };
  if (p.add && with.c != with.d) {
    const std::size_t values = static_cast<std::size_t>((p.batch - 1) * stride(p.m, p.n) + p.m * p.n);
    check(op, cudaMemcpyAsync(with.d, with.c, values * size_of(p.out), cudaMemcpyDeviceToDevice, stream_.handle()));
  }
  check(op, cublas().gemm(handle_, of_b, of_a, p.n, p.m, p.k, alpha, with.b, from, p.transpose_b ? p.k : p.n,
                          stride(p.k, p.n), with.a, from, p.transpose_a ? p.m : p.k, stride(p.m, p.k), beta, with.d, to,
                          p.n, stride(p.m, p.n), p.batch, compute, CUBLAS_GEMM_DEFAULT));
  stream_.launched(op);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
