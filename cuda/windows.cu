// Moving tokens of a grid: windows cut and joined again, four neighbours put side by side.
#include "cuda/cuda_backend.h"
#include "cuda/moves.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// Where value i of the windows lies in the grid, or kPadding.
struct WindowPlace {
  WindowDims d;
  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t c = i % d.cols, token = i / d.cols % d.tokens(), window = i / (d.cols * d.tokens());
    const std::int64_t in_image = window % d.windows(), b = window / d.windows();
    const std::int64_t y = in_image / d.across() * d.window + token / d.window;
    const std::int64_t x = in_image % d.across() * d.window + token % d.window;
    if (y >= d.height || x >= d.width) return kPadding;
    return ((b * d.height + (y + d.shift) % d.height) * d.width + (x + d.shift) % d.width) * d.cols + c;
  }
};

/// The same for the four neighbours that are merged.
struct NeighbourPlace {
  GridDims d;
  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t down = ceil_div(d.height, 2), across = ceil_div(d.width, 2);
    const std::int64_t c = i % d.cols, q = i / d.cols % 4, four = i / (d.cols * 4);
    const std::int64_t y = four / across % down * 2 + q % 2, x = four % across * 2 + q / 2;
    if (y >= d.height || x >= d.width) return kPadding;
    return ((four / (across * down) * d.height + y) * d.width + x) * d.cols + c;
  }
};

}  // namespace

void CudaBackend::cut_windows(WindowDims d, Tensor x, Tensor y) {
  gather("cut_windows", WindowPlace{d}, x, y, false, stream_);
}

void CudaBackend::cut_windows_backward(WindowDims d, Tensor dy, Gradient dx) {
  if (dx) scatter("cut_windows_backward", WindowPlace{d}, dy, dx.to, adds(dx), stream_);
}

void CudaBackend::join_windows(WindowDims d, Tensor x, Tensor y) {
  scatter("join_windows", WindowPlace{d}, x, y, false, stream_);
}

void CudaBackend::join_windows_backward(WindowDims d, Tensor dy, Gradient dx) {
  if (dx) gather("join_windows_backward", WindowPlace{d}, dy, dx.to, adds(dx), stream_);
}

void CudaBackend::merge_patches(GridDims d, Tensor x, Tensor y) {
  gather("merge_patches", NeighbourPlace{d}, x, y, false, stream_);
}

void CudaBackend::merge_patches_backward(GridDims d, Tensor dy, Gradient dx) {
  if (dx) scatter("merge_patches_backward", NeighbourPlace{d}, dy, dx.to, adds(dx), stream_);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
