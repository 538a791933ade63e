// Multi-head attention in float and double, a head at a time. For bf16 see attention_bf16.cpp.
#include "cuda/cuda_backend.h"
#include "cuda/no_kernel_yet.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void CudaBackend::attention(AttentionDims, Tensor, Tensor, Tensor, Tensor, double, Tensor, Tensor) {
  no_kernel_yet("attention");
}
void CudaBackend::attention_backward(AttentionDims, Tensor, Tensor, Tensor, Tensor, Tensor, double, Tensor, Tensor,
                                     Gradient, Gradient, Gradient) {
  no_kernel_yet("attention_backward");
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
