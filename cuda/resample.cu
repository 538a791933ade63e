// Resampling of images and of tables of positions: the width of every row, then the height of the whole image.
#include "cuda/cuda_backend.h"
#include "cuda/no_kernel_yet.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void CudaBackend::resample(ResampleDims, Tensor, Tensor) { no_kernel_yet("resample"); }
void CudaBackend::resample_backward(ResampleDims, Tensor, Gradient) { no_kernel_yet("resample_backward"); }

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
