// Dynamic Tanh, "Transformers without Normalization" section 4: y = gamma tanh(alpha x) + beta.
#include "cuda/cuda_backend.h"
#include "cuda/no_kernel_yet.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void CudaBackend::dyt(Tensor, Tensor, Tensor, Tensor, Tensor) { no_kernel_yet("dyt"); }
void CudaBackend::dyt_backward(Tensor, Tensor, Tensor, Tensor, Gradient, Gradient, Gradient, Gradient) {
  no_kernel_yet("dyt_backward");
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
