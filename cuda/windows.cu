// Moving tokens of a grid: windows cut and joined again, four neighbours put side by side.
#include "cuda/cuda_backend.h"
#include "cuda/no_kernel_yet.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void CudaBackend::cut_windows(WindowDims, Tensor, Tensor) { no_kernel_yet("cut_windows"); }
void CudaBackend::cut_windows_backward(WindowDims, Tensor, Gradient) { no_kernel_yet("cut_windows_backward"); }
void CudaBackend::join_windows(WindowDims, Tensor, Tensor) { no_kernel_yet("join_windows"); }
void CudaBackend::join_windows_backward(WindowDims, Tensor, Gradient) { no_kernel_yet("join_windows_backward"); }
void CudaBackend::merge_patches(GridDims, Tensor, Tensor) { no_kernel_yet("merge_patches"); }
void CudaBackend::merge_patches_backward(GridDims, Tensor, Gradient) { no_kernel_yet("merge_patches_backward"); }

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
