// Adam and momentum as Big Vision has them (its optax.py): the decay is multiplied by the schedule and not by the peak
// rate, and the first moment may be stored in bf16.
#include "cuda/cuda_backend.h"
#include "cuda/no_kernel_yet.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void CudaBackend::big_vision_adam(BigVisionAdamSettings, UpdateFactors, const StepState*, Tensor, Tensor, Tensor,
                                  Tensor, Tensor) {
  no_kernel_yet("big_vision_adam");
}
void CudaBackend::momentum_hp(MomentumSettings, UpdateFactors, const StepState*, Tensor, Tensor, Tensor, Tensor) {
  no_kernel_yet("momentum_hp");
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
