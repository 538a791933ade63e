// Moves tokens of a grid: cuts and joins windows, concatenates four neighbours.
#include "cuda/cuda_backend.h"
#include "cuda/moves.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// The place in the grid of value i of the windows, or kPadding.
struct WindowPlace {
  WindowDims d;
  std::int64_t together() const { return d.cols; }
  template <class I>
  __device__ I operator()(I i) const {
    const I cols = I(d.cols), side = I(d.window), in_window = I(d.tokens()), in_image = I(d.windows()),
            across = I(d.across()), height = I(d.height), width = I(d.width);
    const I all = i / cols, c = i - all * cols, windows = all / in_window, token = all - windows * in_window;
    const I b = windows / in_image, window = windows - b * in_image;
    const I y = WindowDims::source(d.padding, window / across * side + token / side, height, I(d.down()) * side,
                                   I(d.shift_y)),
            x = WindowDims::source(d.padding, window % across * side + token % side, width, across * side,
                                   I(d.shift_x));
    if (y >= height || x >= width) return I(kPadding);
    return ((b * height + y) * width + x) * cols + c;
  }
};

/// The same for the four neighbours that are merged.
struct NeighbourPlace {
  GridDims d;
  std::int64_t together() const { return d.cols; }
  template <class I>
  __device__ I operator()(I i) const {
    const I cols = I(d.cols), height = I(d.height), width = I(d.width), down = (height + 1) / 2,
            across = (width + 1) / 2;
    const I all = i / cols, c = i - all * cols, four = all / 4, q = all % 4, row = four / across, b = row / down;
    const I y = (row - b * down) * 2 + q % 2, x = (four - row * across) * 2 + q / 2;
    if (y >= height || x >= width) return I(kPadding);
    return ((b * height + y) * width + x) * cols + c;
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
