// Matrices as cuBLAS and cuBLASLt have them, for the emulation of both.
#pragma once

#include <vector>

#include "core/cpu/blas.h"
#include "core/dtype.h"
#include "core/error.h"
#include "tests/cuda_emulation/heap.h"
#include "tests/cuda_emulation/include/cublas_v2.h"
#include "tests/cuda_emulation/scheduler.h"
#include "tests/cuda_emulation/streams.h"

namespace normlab::emulation {

/// `columns` of them, `rows` values each.
struct Matrix {
  const void* data;
  cudaDataType_t type;
  std::int64_t rows, columns, stride;
  std::size_t value_bytes() const { return type == CUDA_R_64F ? 8 : type == CUDA_R_16BF ? 2 : 4; }
};

/// Throws Fault where the device has not all of it, or work that is not ordered before this touches it.
inline void require(const Work& work, const char* library, const char* name, const Matrix& m, bool writes = false) {
  if (m.rows == 0 || m.columns == 0) return;
  if (m.stride < m.rows) throw emulation::Fault(concat(library, ": ", name, " has a stride below its rows"));
  for (std::int64_t c = 0; c < m.columns; ++c) {
    const char* column = static_cast<const char*>(m.data) + static_cast<std::size_t>(c * m.stride) * m.value_bytes();
    const std::size_t bytes = static_cast<std::size_t>(m.rows) * m.value_bytes();
    if (!emulation::in_heap(column)) throw emulation::Fault(concat(library, ": ", name, " lies in the host's memory"));
    if (!emulation::heap_in_use(column, bytes))
      throw emulation::Fault(concat(library, ": column ", c, " of ", name, ", ", bytes, " bytes, begins or ends ",
                                    emulation::heap_describe(column)));
    touch(library, work, column, bytes, writes);
  }
}

inline std::vector<float> widened(const Matrix& m) {
  std::vector<float> wide(static_cast<std::size_t>(m.rows * m.columns));
  for (std::int64_t c = 0; c < m.columns; ++c)
    for (std::int64_t r = 0; r < m.rows; ++r) {
      const std::int64_t at = c * m.stride + r;
      wide[static_cast<std::size_t>(c * m.rows + r)] =
          m.type == CUDA_R_16BF ? float(static_cast<const bf16*>(m.data)[at]) : static_cast<const float*>(m.data)[at];
    }
  return wide;
}

/// By columns.
template <class T>
void columns_gemm(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a,
                  std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
  gemm(tb, ta, n, m, k, alpha, b, ldb, a, lda, beta, c, ldc);  // by rows: the transposed product
}

}  // namespace normlab::emulation
