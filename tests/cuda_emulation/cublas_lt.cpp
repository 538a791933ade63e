// cuBLASLt's products by OpenBLAS, with what comes before and after them in loops over values that are not yet rounded.
#include "tests/cuda_emulation/include/cublasLt.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "tests/cuda_emulation/lt_control.h"
#include "tests/cuda_emulation/matrix.h"
#include "tests/cuda_emulation/runtime.h"

using namespace normlab;
using namespace normlab::emulation;

struct EmulatedCublasLt {};
struct EmulatedMatmul {
  cublasComputeType_t compute;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, vector_type = -1;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *vector = nullptr, *aux = nullptr;
  std::int64_t aux_ld = 0, vector_stride = 0, aux_stride = 0;  // in values; the strides of a batch
  /// With the vector and the extra matrix, of D's type, of the i-th of a batch.
  EmulatedMatmul of_batch(std::int64_t i, cudaDataType_t type) const {
    const auto bytes = static_cast<std::int64_t>(Matrix{nullptr, type, 0, 0, 0}.value_bytes());
    EmulatedMatmul one = *this;
    if (vector) one.vector = static_cast<char*>(vector) + i * vector_stride * bytes;
    if (aux) one.aux = static_cast<char*>(aux) + i * aux_stride * bytes;
    return one;
  }
};
struct EmulatedLayout {
  cudaDataType_t type;
  std::int64_t rows, cols, ld, stride = 0;
  std::int32_t batch = 1;
  /// The i-th of the batch that begins at `data`.
  Matrix at(const void* data, std::int64_t i) const {
    Matrix m{data, type, rows, cols, ld};
    m.data = static_cast<const char*>(data) + i * stride * static_cast<std::int64_t>(m.value_bytes());
    return m;
  }
};
struct EmulatedPreference {
  std::uint32_t alignment = 256;
};

namespace normlab::emulation {
LtControl& lt_control() {
  static LtControl control;
  return control;
}
}  // namespace normlab::emulation

namespace {

constexpr std::uint64_t kMark = 0x6c74;

bool goes_back(const EmulatedMatmul& m) { return m.epilogue == CUBLASLT_EPILOGUE_DGELU; }
bool has_vector(const EmulatedMatmul& m) {
  return m.epilogue != CUBLASLT_EPILOGUE_DEFAULT && m.epilogue != CUBLASLT_EPILOGUE_DGELU;
}

/// Whether cuBLASLt computes this. The vector has the type of D, whatever it is called.
bool supported(const EmulatedMatmul& m, const EmulatedLayout& a, const EmulatedLayout& b, const EmulatedLayout& d) {
  const bool bf16_in = a.type == CUDA_R_16BF, gelu = m.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || goes_back(m);
  if (lt_control().refused.contains(static_cast<int>(m.epilogue))) return false;
  if (a.type != b.type || (m.compute == CUBLAS_COMPUTE_64F) != (a.type == CUDA_R_64F)) return false;
  if (a.type != d.type && !(bf16_in && d.type == CUDA_R_32F)) return false;
  if (m.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type != CUDA_R_32F) return false;
  if (a.batch != d.batch || b.batch != d.batch || (d.batch > lt_control().most_in_batch)) return false;
  if (gelu && m.aux_stride % 8 != 0) return false;
  if (has_vector(m) && (m.vector_type != d.type || !m.vector)) return false;
  return !gelu || (m.aux && m.aux_ld >= d.rows && m.aux_ld % 8 == 0);
}

float to_tf32(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((u + 0xfffu + (u >> 13 & 1u)) & ~std::uint32_t{0x1fff});
}

template <class A>
struct GeluTanh {
  A value, slope;
  explicit GeluTanh(A x) {
    const A root = std::sqrt(A(2) / std::acos(A(-1))), t = std::tanh(root * (x + A(0.044715) * x * x * x));
    value = x * (1 + t) / 2;
    slope = (1 + t) / 2 + x * (1 - t * t) / 2 * root * (1 + A(0.134145) * x * x);
  }
};

/// A matrix in the type that sums have, without gaps.
template <class A>
std::vector<A> values_of(const Matrix& m) {
  if constexpr (std::is_same_v<A, float>) {
    return widened(m);
  } else {
    std::vector<A> all;
    for (std::int64_t c = 0; c < m.columns; ++c)
      for (std::int64_t r = 0; r < m.rows; ++r) all.push_back(static_cast<const A*>(m.data)[c * m.stride + r]);
    return all;
  }
}

template <class A>
void store(void* to, cudaDataType_t type, std::int64_t at, A value) {
  if (type == CUDA_R_16BF)
    static_cast<bf16*>(to)[at] = bf16(value);
  else
    static_cast<A*>(to)[at] = value;
}

template <class A>
void run(const EmulatedMatmul& m, A alpha, const Matrix& a, const Matrix& b, A beta, const Matrix& c, void* d) {
  const bool ta = m.transpose_a == CUBLAS_OP_T, tb = m.transpose_b == CUBLAS_OP_T;
  const std::int64_t rows = c.rows, cols = c.columns, k = ta ? a.rows : a.columns;
  std::vector<A> va = values_of<A>(a), vb = values_of<A>(b);
  if constexpr (std::is_same_v<A, float>)
    if (m.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
      for (std::vector<float>* v : {&va, &vb})
        for (float& x : *v) x = to_tf32(x);
  std::vector<A> h = beta != 0 ? values_of<A>(c) : std::vector<A>(static_cast<std::size_t>(rows * cols));
  columns_gemm(ta, tb, rows, cols, k, alpha, va.data(), a.rows, vb.data(), b.rows, beta, h.data(), rows);
  const bool bias = m.epilogue == CUBLASLT_EPILOGUE_BIAS || m.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  const bool slopes = goes_back(m);
  std::vector<A> vector(static_cast<std::size_t>(rows));
  if (bias) vector = values_of<A>({m.vector, c.type, rows, 1, rows});
  std::vector<A> aux;
  if (slopes) aux = values_of<A>({m.aux, c.type, rows, cols, m.aux_ld});
  for (std::int64_t j = 0; j < cols; ++j)
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto at = static_cast<std::size_t>(j * rows + i);
      A value = h[at];
      if (bias) value += vector[static_cast<std::size_t>(i)];
      if (m.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        store(m.aux, c.type, j * m.aux_ld + i, value);
        value = GeluTanh<A>(value).value;
      }
      if (slopes) value *= GeluTanh<A>(aux[at]).slope;
      store(d, c.type, j * c.stride + i, value);
    }
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new EmulatedCublasLt;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtGetProperty(libraryPropertyType which, int* value) { return cublasGetProperty(which, value); }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* what, cublasComputeType_t compute, cudaDataType_t) {
  *what = new EmulatedMatmul{.compute = compute};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t what) {
  delete what;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t m, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  const auto take = [&](auto& to) {
    if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(m->transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(m->transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(m->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(m->vector);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return take(m->aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return take(m->aux_ld);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return take(m->aux_stride);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return take(m->vector_stride);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return take(m->vector_type);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t cols, std::int64_t ld) {
  *layout = new EmulatedLayout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  const bool count = attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
  if (bytes != (count ? sizeof layout->batch : sizeof layout->stride)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(count ? static_cast<void*>(&layout->batch) : &layout->stride, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new EmulatedPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  if (bytes != (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4)) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) std::memcpy(&preference->alignment, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t m, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int wanted, cublasLtMatmulHeuristicResult_t* results, int* count) {
  ++lt_control().look_ups;
  *count = 0;
  if (const int failure = std::exchange(lt_control().failure, 0)) return static_cast<cublasStatus_t>(failure);
  if (!supported(*m, *a, *b, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (; *count < std::min(wanted, lt_control().candidates); ++*count)
    results[*count] = {{{kMark, static_cast<std::uint64_t>(lt_control().algorithm + *count), preference->alignment}},
                       0,
                       CUBLAS_STATUS_SUCCESS,
                       1.0f,
                       {}};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t m, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  if (const int failure = std::exchange(lt_control().failure, 0)) return static_cast<cublasStatus_t>(failure);
  if (algo->data[0] != kMark) return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*m, *a, *b, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {*algo, 0, CUBLAS_STATUS_SUCCESS, 1.0f, {}};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                    std::size_t bytes, std::size_t* written) {
  const auto number = static_cast<std::uint32_t>(attribute == CUBLASLT_ALGO_CONFIG_ID ? algo->data[1] : 1);
  if (bytes != sizeof number) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &number, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t m, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t la, const void* b, cublasLtMatrixLayout_t lb, const void* beta,
                              const void* c, cublasLtMatrixLayout_t lc, void* d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t* algo, void*, std::size_t, cudaStream_t stream) {
  if (error_at("") != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (algo->data[0] != kMark) return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*m, *la, *lb, *ld)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (lt_control().refuses_batches && ld->batch > 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto is_aligned = [&](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % algo->data[2] == 0; };
  bool aligned = is_aligned(m->vector);
  for (std::int64_t i = 0; i < ld->batch; ++i)
    for (const void* p : {la->at(a, i).data, lb->at(b, i).data, lc->at(c, i).data, ld->at(d, i).data})
      aligned &= is_aligned(p);
  if (!aligned)
    throw Fault(concat("cuBLASLt: an operand is not aligned to ", algo->data[2], " bytes, as was promised"));
  LtControl& control = lt_control();
  ++control.products;
  control.in_batches += ld->batch;
  control.last_algorithm = static_cast<int>(algo->data[1]);
  control.last_epilogue = static_cast<int>(m->epilogue);
  // The factors and the description are taken as they are now, the matrices when it is this product's turn.
  const bool wide = m->compute == CUBLAS_COMPUTE_64F, rounds = control.other_bits_in_batch && ld->batch > 1;
  const double by = wide ? *static_cast<const double*>(alpha) : double(*static_cast<const float*>(alpha));
  const double kept = wide ? *static_cast<const double*>(beta) : double(*static_cast<const float*>(beta));
  const auto time = control.seconds.find(control.last_algorithm);
  in_order(stream, [seconds = time == control.seconds.end() ? 0 : time->second, how = *m, a, b, c, d, of_a = *la,
                    of_b = *lb, of_c = *lc, to = *ld, by, kept, wide, rounds] {
    pass(seconds);
    const Work work = begin_work("cuBLASLt");
    for (std::int64_t i = 0; i < to.batch; ++i) {
      const EmulatedMatmul one = how.of_batch(i, to.type);
      if (has_vector(how)) require(work, "cuBLASLt", "the vector", {one.vector, to.type, to.rows, 1, to.rows});
      if (how.aux_ld > 0)
        require(work, "cuBLASLt", "the extra matrix", {one.aux, to.type, to.rows, to.cols, how.aux_ld},
                !goes_back(how));
      const Matrix ma = of_a.at(a, i), mb = of_b.at(b, i), mc = of_c.at(c, i), md = to.at(d, i);
      require(work, "cuBLASLt", "A", ma);
      require(work, "cuBLASLt", "B", mb);
      require(work, "cuBLASLt", "C", mc);
      require(work, "cuBLASLt", "D", md, true);
      void* const here = const_cast<void*>(md.data);
      if (wide)
        run(one, by, ma, mb, kept, mc, here);
      else
        run(one, static_cast<float>(by), ma, mb, static_cast<float>(kept), mc, here);
      if (rounds) *static_cast<char*>(here) ^= 1;
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}
