// Batch norm over a batch that is cut into shards. Each shard takes the statistics of its own images one at a time; the
// last to arrive puts the images of all shards together in order, in double, so that neither the cut nor the number of
// threads changes a bit.
#include "cuda/cuda_backend.h"
#include "cuda/no_kernel_yet.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void CudaBackend::batch_norm(BatchNormDims, Collective&, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor,
                             Tensor) {
  no_kernel_yet("batch_norm");
}
void CudaBackend::batch_norm_backward(BatchNormDims, Collective&, Tensor, Tensor, Tensor, Tensor, Tensor, Gradient,
                                      Gradient, Gradient) {
  no_kernel_yet("batch_norm_backward");
}
void CudaBackend::batch_norm_frozen(NormDims, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor) {
  no_kernel_yet("batch_norm_frozen");
}
void CudaBackend::batch_norm_frozen_backward(NormDims, Tensor, Tensor, Tensor, Tensor, Tensor, Gradient, Gradient,
                                             Gradient) {
  no_kernel_yet("batch_norm_frozen_backward");
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
