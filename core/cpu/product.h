// Matrix products of a shard's size: a few hundred rows and columns. OpenBLAS first copies both factors into its own
// order, which at these sizes takes a tenth of the time. The kernels here copy only the second factor, one panel of two
// vectors' width at a time, and apply bias, addition and following operations to each tile of the result while it is in
// registers or cache. Large products go to OpenBLAS (see own_product()).
#pragma once

#include <algorithm>

#include "core/cpu/scratch.h"
#include "core/cpu/vector.h"

namespace normlab::cpu {

/// Element (i, j) is data[i * row + j * col]; row or col is 1.
template <class T>
struct Factor {
  const T* data;
  std::int64_t row, col;
};
/// A matrix as stored, and transposed.
template <class T>
static Factor<T> plain(const T* data, std::int64_t stride) {
  return {data, stride, 1};
}
template <class T>
static Factor<T> transposed(const T* data, std::int64_t stride) {
  return {data, 1, stride};
}

/// C [m, n] = alpha A [m, k] B [k, n], plus bias [n] in every row if given, plus C if `add`, or plus `plus` [m, n] if
/// given, which has the row stride of C.
template <class T>
struct Product {
  std::int64_t m, n, k;
  Factor<T> a, b;
  T* c;
  std::int64_t c_row;
  bool add = false;
  T alpha = T(1);
  const T* bias = nullptr;
  const T* plus = nullptr;
  /// Null, or the full panels of B one after another, each as packed by pack_panel() with all rows of B.
  const T* panels = nullptr;
};

/// Whether product() uses the kernels here: a function of the sizes alone, so that a product has the same bits
/// everywhere. Beyond the limits OpenBLAS is faster (`normlab bench gemm` prints both): it also copies the first
/// factor, which pays if its columns are read often, and blocks for the outer caches.
template <class T>
static bool own_product(const Product<T>& p) {
  constexpr std::int64_t kByColumns = std::int64_t{1} << 20, kWork = std::int64_t{1} << 29;
  return (p.a.col == 1 || p.m * p.n <= kByColumns) && p.m * p.n * p.k <= kWork;
}

namespace detail {

/// Rows of a tile: with two vectors per row and one for the row of the second factor, they fill the registers.
inline constexpr std::int64_t kTileRows = kVectorRegisters == 32 ? 14 : 6;
template <class T>
inline constexpr std::int64_t kPanel = 2 * kLanes<T>;
/// Rows of B that are multiplied in one go, so that a panel stays in the first-level cache.
inline constexpr std::int64_t kDepthBlock = 768;
/// Up to this depth full panels of B are read in place, since their rows stay in the cache anyway.
inline constexpr std::int64_t kShallow = 128;

/// Computes a tile of C, one or two vectors wide, from a panel [depth, width] of B of the same width and row stride
/// `b_row`. Adds `plus` (null, C itself or another matrix). Everything is read and written over the whole width.
template <class T>
using TileKernel = void (*)(std::int64_t depth, Factor<T> a, const T* b, std::int64_t b_row, T alpha, const T* bias,
                            const T* plus, T* c, std::int64_t c_row);
template <class T>
TileKernel<T> tile_kernel(std::int64_t rows, std::int64_t vectors);

/// The same for a tile of `width` < kPanel columns. Whole vectors use the kernel, the rest a buffer next to C.
template <class T>
void edge_tile(std::int64_t rows, std::int64_t depth, Factor<T> a, const T* b, std::int64_t b_row, T alpha,
               const T* bias, const T* plus, T* c, std::int64_t c_row, std::int64_t width);

/// Copies rows first .. first + depth and columns j .. j + width of B as [depth, kPanel]; columns beyond `width` are 0.
template <class T>
void pack_panel(const Factor<T>& b, std::int64_t first, std::int64_t depth, std::int64_t j, std::int64_t width,
                T* panel);

/// Products that own_product() rejects, by OpenBLAS.
void large_product(const Product<float>& p);
void large_product(const Product<double>& p);

}  // namespace detail

/// product() by the kernels here, for any size.
template <class T, class Done>
static void own_kernels(const Product<T>& p, Done&& done) {
  using namespace detail;
  constexpr std::int64_t kWidth = kPanel<T>;
  const std::int64_t tiles = (p.m + kTileRows - 1) / kTileRows;
  const Scratch<T> packed(kDepthBlock * kWidth);
  for (std::int64_t j = 0; j < p.n; j += kWidth) {
    const std::int64_t width = std::min(kWidth, p.n - j);
    const bool whole = width == kWidth;
    for (std::int64_t first = 0; first < p.k; first += kDepthBlock) {
      const std::int64_t depth = std::min(kDepthBlock, p.k - first);
      const T* panel = p.b.data + first * p.b.row + j;
      std::int64_t panel_row = p.b.row;
      if (p.panels && whole) {
        panel = p.panels + j * p.k + first * kWidth, panel_row = kWidth;
      } else if (p.b.col != 1 || !whole || depth > kShallow) {
        pack_panel<T>(p.b, first, depth, j, width, packed);
        panel = packed, panel_row = kWidth;
      }
      const T* bias = first == 0 && p.bias ? p.bias + j : nullptr;
      for (std::int64_t t = 0; t < tiles; ++t) {  // rows in equal parts: no thin tile at the end
        const std::int64_t row = t * p.m / tiles, rows = (t + 1) * p.m / tiles - row;
        const Factor<T> a{p.a.data + row * p.a.row + first * p.a.col, p.a.row, p.a.col};
        T* c = p.c + row * p.c_row + j;
        const T* plus = first > 0 || p.add ? c : p.plus ? p.plus + row * p.c_row + j : nullptr;
        if (whole) {
          tile_kernel<T>(rows, 2)(depth, a, panel, panel_row, p.alpha, bias, plus, c, p.c_row);
        } else {
          edge_tile(rows, depth, a, panel, panel_row, p.alpha, bias, plus, c, p.c_row, width);
        }
        if (first + depth == p.k) done(row, rows, j, width);
      }
    }
  }
}

/// Computes the product and calls done(row, rows, column, columns) for each completed piece of C while it is in
/// the cache.
template <class T, class Done>
static void product(const Product<T>& p, Done&& done) {
  if (own_product(p)) return own_kernels(p, done);
  detail::large_product(p);
  done(std::int64_t{0}, p.m, std::int64_t{0}, p.n);
}

template <class T>
static void product(const Product<T>& p) {
  product(p, [](auto, auto, auto, auto) {});
}

}  // namespace normlab::cpu
