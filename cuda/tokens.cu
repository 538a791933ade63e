// Moving tokens about: patches out of images, positions, class token, pooling.
#include "cuda/cuda_backend.h"
#include "cuda/no_kernel_yet.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void CudaBackend::patchify(PatchDims, Tensor, Tensor) { no_kernel_yet("patchify"); }
void CudaBackend::patchify_backward(PatchDims, Tensor, Gradient) { no_kernel_yet("patchify_backward"); }
void CudaBackend::add_positions(TokenDims, Tensor, Tensor, Tensor) { no_kernel_yet("add_positions"); }
void CudaBackend::add_positions_backward(TokenDims, Tensor, Gradient, Gradient) {
  no_kernel_yet("add_positions_backward");
}
void CudaBackend::mean_tokens(TokenDims, Tensor, Tensor) { no_kernel_yet("mean_tokens"); }
void CudaBackend::mean_tokens_backward(TokenDims, Tensor, Gradient) { no_kernel_yet("mean_tokens_backward"); }
void CudaBackend::concat_token(TokenDims, Tensor, Tensor, Tensor) { no_kernel_yet("concat_token"); }
void CudaBackend::concat_token_backward(TokenDims, Tensor, Gradient, Gradient) {
  no_kernel_yet("concat_token_backward");
}
void CudaBackend::select_tokens(TokenDims, std::int64_t, std::int64_t, Tensor, Tensor) {
  no_kernel_yet("select_tokens");
}
void CudaBackend::select_tokens_backward(TokenDims, std::int64_t, std::int64_t, Tensor, Gradient) {
  no_kernel_yet("select_tokens_backward");
}
void CudaBackend::concat_tokens(TokenDims, std::int64_t, Tensor, Tensor, Tensor) { no_kernel_yet("concat_tokens"); }
void CudaBackend::concat_tokens_backward(TokenDims, std::int64_t, Tensor, Gradient, Gradient) {
  no_kernel_yet("concat_tokens_backward");
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
