// Gives tests access to tensor_core.cuh: the fragments of a warp.
#pragma once

#include "core/dtype.h"

namespace normlab {

/// What one lane holds of A = x [16, 16] and of its transpose, of B = z^T and of z, each as two [16, 8], and of c + A B
/// for both; also two values of c rounded, and 2 to the power of the first.
struct TensorCoreLane {
  unsigned a[4], a_trans[4], b[2][2], b_trans[2][2];
  float sums[2][4], sums_trans[2][4];
  unsigned packed;
  float power;
};

/// Computes out [32] from x, z and c [16, 16] in device memory, by the plain version of each instruction or by what the
/// kernels use. Done when it returns.
using ProbeTensorCore = void(bool plain_version, const bf16* x, const bf16* z, const float* c, TensorCoreLane* out);

namespace cuda {
[[gnu::weak]] ProbeTensorCore probe_tensor_core;  // null if the kernels are not built for a GPU
}
namespace cuda_emulated {
ProbeTensorCore probe_tensor_core;
}

}  // namespace normlab
