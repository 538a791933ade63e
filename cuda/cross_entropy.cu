// The two classification losses, one number an image, and softmax cross-entropy over pixels, of which some do not
// count.
#include "cuda/cuda_backend.h"
#include "cuda/no_kernel_yet.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void CudaBackend::softmax_cross_entropy(LossDims, Tensor, Tensor, Tensor, Tensor) {
  no_kernel_yet("softmax_cross_entropy");
}
void CudaBackend::softmax_cross_entropy_backward(LossDims, Tensor, Tensor, Tensor, Tensor, Gradient) {
  no_kernel_yet("softmax_cross_entropy_backward");
}
void CudaBackend::sigmoid_cross_entropy(LossDims, Tensor, Tensor, Tensor, Tensor) {
  no_kernel_yet("sigmoid_cross_entropy");
}
void CudaBackend::sigmoid_cross_entropy_backward(LossDims, Tensor, Tensor, Tensor, Tensor, Gradient) {
  no_kernel_yet("sigmoid_cross_entropy_backward");
}
void CudaBackend::pixel_softmax_cross_entropy(LossDims, std::int32_t, Tensor, Tensor, Tensor) {
  no_kernel_yet("pixel_softmax_cross_entropy");
}
void CudaBackend::pixel_softmax_cross_entropy_backward(LossDims, std::int32_t, Tensor, Tensor, Tensor, Gradient) {
  no_kernel_yet("pixel_softmax_cross_entropy_backward");
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
