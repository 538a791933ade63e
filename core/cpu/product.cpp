#include "core/cpu/product.h"

#include "core/cpu/blas.h"

namespace normlab::cpu::detail {
namespace {

template <class T, int kVectors, int kRows>
void tile(std::int64_t depth, Factor<T> a, const T* b, std::int64_t b_row, T alpha, const T* bias, const T* plus, T* c,
          std::int64_t c_row) {
  // Prefetches the tile's memory while multiplying, since it is often in no cache (a gradient of megabytes, an arena's
  // next page).
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      __builtin_prefetch(c + r * c_row + v * kLanes<T>, 1);
      if (plus && plus != c) __builtin_prefetch(plus + r * c_row + v * kLanes<T>);
    }
  Vector<T> sums[kRows][kVectors] = {};
  for (std::int64_t p = 0; p < depth; ++p) {
    Vector<T> row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + p * b_row + v * kLanes<T>);
    const T* column = a.data + p * a.col;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) sums[r][v] += column[r * a.row] * row[v];
  }
  Vector<T> start[kVectors] = {};
  if (bias)
    for (int v = 0; v < kVectors; ++v) start[v] = load(bias + v * kLanes<T>);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t at = r * c_row + v * kLanes<T>;
      const Vector<T> value = sums[r][v] * alpha + start[v];
      store(c + at, plus ? load(plus + at) + value : value);
    }
}

template <class T, int kVectors, int... kRows>
constexpr auto make_table(std::integer_sequence<int, kRows...>) {
  return std::array<TileKernel<T>, sizeof...(kRows)>{&tile<T, kVectors, kRows + 1>...};
}

template <class T>
void large(const Product<T>& p) {
  for (std::int64_t r = 0; r < p.m && !p.add; ++r) {
    T* row = p.c + r * p.c_row;
    if (p.plus) std::copy_n(p.plus + r * p.c_row, p.n, row);
    if (!p.plus && p.bias) std::fill_n(row, p.n, T(0));
  }
  for (std::int64_t r = 0; r < p.m && p.bias; ++r)
    for (std::int64_t i = 0; i < p.n; ++i) p.c[r * p.c_row + i] += p.bias[i];
  const bool ta = p.a.col != 1, tb = p.b.col != 1;
  gemm(ta, tb, p.m, p.n, p.k, p.alpha, p.a.data, ta ? p.a.col : p.a.row, p.b.data, tb ? p.b.col : p.b.row,
       T(p.add || p.plus || p.bias), p.c, p.c_row);
}

}  // namespace

template <class T>
TileKernel<T> tile_kernel(std::int64_t rows, std::int64_t vectors) {
  using Rows = std::make_integer_sequence<int, int(kTileRows)>;
  static constexpr auto kOne = make_table<T, 1>(Rows{}), kTwo = make_table<T, 2>(Rows{});
  return (vectors == 1 ? kOne : kTwo)[static_cast<std::size_t>(rows - 1)];
}

template <class T>
void edge_tile(std::int64_t rows, std::int64_t depth, Factor<T> a, const T* b, std::int64_t b_row, T alpha,
               const T* bias, const T* plus, T* c, std::int64_t c_row, std::int64_t width) {
  constexpr std::int64_t kWide = kLanes<T>;
  const TileKernel<T> kernel = tile_kernel<T>(rows, 1);
  for (std::int64_t j = 0; j < width; j += kWide) {
    const std::int64_t n = std::min(kWide, width - j);
    const T *bias_j = bias ? bias + j : nullptr, *plus_j = plus ? plus + j : nullptr;
    if (n == kWide) {
      kernel(depth, a, b + j, b_row, alpha, bias_j, plus_j, c + j, c_row);
      continue;
    }
    alignas(64) T beside[kTileRows * kWide];
    kernel(depth, a, b + j, b_row, alpha, nullptr, nullptr, beside, kWide);
    const Tail<T> lanes{n};
    const Vector<T> start = bias ? load(bias_j, lanes) : Vector<T>{};
    for (std::int64_t r = 0; r < rows; ++r) {
      const Vector<T> value = load(beside + r * kWide) + start;
      store(c + r * c_row + j, plus ? load(plus_j + r * c_row, lanes) + value : value, lanes);
    }
  }
}

template <class T>
void pack_panel(const Factor<T>& b, std::int64_t first, std::int64_t depth, std::int64_t j, std::int64_t width,
                T* panel) {
  constexpr std::int64_t kWidth = kPanel<T>, kWide = kLanes<T>;
  const T* from = b.data + first * b.row + j * b.col;
  if (b.col == 1 && width == kWidth) {
    for (std::int64_t p = 0; p < depth; ++p) {
      store(panel + p * kWidth, load(from + p * b.row));
      store(panel + p * kWidth + kWide, load(from + p * b.row + kWide));
    }
    return;
  }
  if (b.col == 1) {
    for (std::int64_t p = 0; p < depth; ++p)
      for (std::int64_t i = 0; i < kWidth; ++i) panel[p * kWidth + i] = i < width ? from[p * b.row + i] : T(0);
    return;
  }
  // Full squares of columns and rows are transposed in registers, the rest one by one.
  const std::int64_t squares = width / kWide * kWide, deep = depth / kWide * kWide;
  for (std::int64_t p = 0; p < deep; p += kWide)
    for (std::int64_t i = 0; i < squares; i += kWide)
      transpose_square(from + i * b.col + p, b.col, panel + p * kWidth + i, kWidth);
  for (std::int64_t p = 0; p < depth; ++p)
    for (std::int64_t i = p < deep ? squares : 0; i < kWidth; ++i)
      panel[p * kWidth + i] = i < width ? from[i * b.col + p] : T(0);
}

void large_product(const Product<float>& p) { large(p); }
void large_product(const Product<double>& p) { large(p); }

#define NORMLAB_FOR(T)                                                                                                 \
  template TileKernel<T> tile_kernel<T>(std::int64_t, std::int64_t);                                                   \
  template void edge_tile<T>(std::int64_t, std::int64_t, Factor<T>, const T*, std::int64_t, T, const T*, const T*, T*, \
                             std::int64_t, std::int64_t);                                                              \
  template void pack_panel<T>(const Factor<T>&, std::int64_t, std::int64_t, std::int64_t, std::int64_t, T*);
NORMLAB_FOR(float)
NORMLAB_FOR(double)
#undef NORMLAB_FOR

}  // namespace normlab::cpu::detail
