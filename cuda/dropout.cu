// Dropout and drop-path with a given mask, the mask itself, and the search for NaN.
#include "cuda/cuda_backend.h"
#include "cuda/no_kernel_yet.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void CudaBackend::dropout(std::int64_t, double, Tensor, Tensor, Tensor) { no_kernel_yet("dropout"); }
void CudaBackend::dropout_backward(std::int64_t, double, Tensor, Tensor, Gradient) {
  no_kernel_yet("dropout_backward");
}
void CudaBackend::dropout_add(std::int64_t, double, Tensor, Tensor, Tensor, Tensor) { no_kernel_yet("dropout_add"); }
void CudaBackend::draw_mask(MaskDraw, const StepState*, Tensor) { no_kernel_yet("draw_mask"); }
void CudaBackend::check_finite(Tensor, std::int32_t, Tensor) { no_kernel_yet("check_finite"); }

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
