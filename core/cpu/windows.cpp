// Moves tokens of a grid: cuts and joins windows, concatenates four neighbours.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

constexpr std::int64_t kPadding = -1;

/// Calls visit(offset in the grid or kPadding, offset in the windows) for every token of every window.
struct WindowTokens {
  WindowDims d;
  std::int64_t cols() const { return d.cols; }
  template <class F>
  void operator()(F&& visit) const {
    std::int64_t to = 0;
    for (std::int64_t b = 0; b < d.batch; ++b)
      for (std::int64_t wy = 0; wy < d.down(); ++wy)
        for (std::int64_t wx = 0; wx < d.across(); ++wx)
          for (std::int64_t ty = 0; ty < d.window; ++ty)
            for (std::int64_t tx = 0; tx < d.window; ++tx, to += d.cols) {
              const std::int64_t y =
                  WindowDims::source(d.padding, wy * d.window + ty, d.height, d.down() * d.window, d.shift_y);
              const std::int64_t x =
                  WindowDims::source(d.padding, wx * d.window + tx, d.width, d.across() * d.window, d.shift_x);
              const bool inside = y < d.height && x < d.width;
              visit(inside ? ((b * d.height + y) * d.width + x) * d.cols : kPadding, to);
            }
  }
};

/// The same for the four neighbours that are merged.
struct Neighbours {
  GridDims d;
  std::int64_t cols() const { return d.cols; }
  template <class F>
  void operator()(F&& visit) const {
    std::int64_t to = 0;
    for (std::int64_t b = 0; b < d.batch; ++b)
      for (std::int64_t y = 0; y < d.height; y += 2)
        for (std::int64_t x = 0; x < d.width; x += 2)
          for (std::int64_t q = 0; q < 4; ++q, to += d.cols) {
            const std::int64_t from_y = y + q % 2, from_x = x + q / 2;
            const bool inside = from_y < d.height && from_x < d.width;
            visit(inside ? ((b * d.height + from_y) * d.width + from_x) * d.cols : kPadding, to);
          }
  }
};

/// Copies in either direction: from the grid to pieces with zeros for padding, or from pieces to the grid, where every
/// token occurs once.
template <class T, class Tokens>
void to_pieces(const Tokens& tokens, const T* grid, T* pieces, bool add) {
  const std::int64_t n = tokens.cols();
  tokens([&](auto from, auto to) {
    if (from == kPadding) {
      if (!add) std::fill_n(pieces + to, n, T(0.0f));
    } else if (add) {
      for (std::int64_t c = 0; c < n; ++c) put(pieces[to + c], Acc<T>(grid[from + c]), true);
    } else {
      std::copy_n(grid + from, n, pieces + to);
    }
  });
}
template <class T, class Tokens>
void to_grid(const Tokens& tokens, const T* pieces, T* grid, bool add) {
  const std::int64_t n = tokens.cols();
  tokens([&](auto from, auto to) {
    if (from == kPadding) return;
    if (add)
      for (std::int64_t c = 0; c < n; ++c) put(grid[from + c], Acc<T>(pieces[to + c]), true);
    else
      std::copy_n(pieces + to, n, grid + from);
  });
}

template <class Tokens>
void to_pieces(const char* op, const Tokens& tokens, Tensor grid, Tensor pieces, bool add) {
  for_type(op, grid.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    to_pieces<T>(tokens, grid.data<T>(), pieces.data<T>(), add);
  });
}
template <class Tokens>
void to_grid(const char* op, const Tokens& tokens, Tensor pieces, Tensor grid, bool add) {
  for_type(op, grid.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    to_grid<T>(tokens, pieces.data<T>(), grid.data<T>(), add);
  });
}

}  // namespace

void CpuBackend::cut_windows(WindowDims d, Tensor x, Tensor y) {
  to_pieces("cut_windows", WindowTokens{d}, x, y, false);
}

void CpuBackend::cut_windows_backward(WindowDims d, Tensor dy, Gradient dx) {
  if (dx) to_grid("cut_windows", WindowTokens{d}, dy, dx.to, adds(dx));
}

void CpuBackend::join_windows(WindowDims d, Tensor x, Tensor y) {
  to_grid("join_windows", WindowTokens{d}, x, y, false);
}

void CpuBackend::join_windows_backward(WindowDims d, Tensor dy, Gradient dx) {
  if (dx) to_pieces("join_windows", WindowTokens{d}, dy, dx.to, adds(dx));
}

void CpuBackend::merge_patches(GridDims d, Tensor x, Tensor y) {
  to_pieces("merge_patches", Neighbours{d}, x, y, false);
}

void CpuBackend::merge_patches_backward(GridDims d, Tensor dy, Gradient dx) {
  if (dx) to_grid("merge_patches", Neighbours{d}, dy, dx.to, adds(dx));
}

}  // namespace normlab
