// Attention inside windows (Liu et al. 2021, section 3.2), a head at a time over all windows: their scores share one
// bias, and its gradient is added up in the order of the windows.
#include "cuda/cuda_backend.h"
#include "cuda/no_kernel_yet.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void CudaBackend::window_attention(AttentionDims, WindowDims, Tensor, Tensor, Tensor, Tensor, Tensor, double, Tensor,
                                   Tensor) {
  no_kernel_yet("window_attention");
}
void CudaBackend::window_attention_backward(AttentionDims, WindowDims, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor,
                                            double, Tensor, Tensor, Gradient, Gradient, Gradient, Gradient) {
  no_kernel_yet("window_attention_backward");
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
