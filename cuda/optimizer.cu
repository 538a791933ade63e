// One block of the flat parameter buffer: sum of the lanes, AdamW (Loshchilov and Hutter 2019) and SGD as PyTorch has
// them, an average of weights. The other optimisers are in files of their own.
#include "cuda/cuda_backend.h"
#include "cuda/no_kernel_yet.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

double CudaBackend::sum_lanes(std::int64_t, std::int64_t, Tensor) { no_kernel_yet("sum_lanes"); }
void CudaBackend::adamw(AdamWSettings, UpdateFactors, const StepState*, Tensor, Tensor, Tensor, Tensor, Tensor) {
  no_kernel_yet("adamw");
}
void CudaBackend::sgd(SgdSettings, UpdateFactors, const StepState*, Tensor, Tensor, Tensor, Tensor) {
  no_kernel_yet("sgd");
}
void CudaBackend::average(double, const StepState*, Tensor, Tensor) { no_kernel_yet("average"); }
void CudaBackend::round_to_bf16(Tensor, Tensor) { no_kernel_yet("round_to_bf16"); }

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
