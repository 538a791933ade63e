// Optimisers whose step has a size of its own: Lion (Chen et al. 2023, algorithm 2) steps by a sign, LAMB (You et al.
// 2020, algorithm 2) by a share of each tensor's norm.
#include "cuda/cuda_backend.h"
#include "cuda/no_kernel_yet.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void CudaBackend::lion(LionSettings, UpdateFactors, const StepState*, Tensor, Tensor, Tensor, Tensor) {
  no_kernel_yet("lion");
}
LambSquares CudaBackend::lamb_moments(AdamWSettings, UpdateFactors, const StepState*, Tensor, bool, Tensor, Tensor,
                                      Tensor) {
  no_kernel_yet("lamb_moments");
}
void CudaBackend::lamb(AdamWSettings, UpdateFactors, const StepState*, const double*, bool, Tensor, Tensor, Tensor) {
  no_kernel_yet("lamb");
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
