// Products of small matrices in shared memory, the parts of attention. A warp multiplies a few rows of one tile with
// all rows of another and keeps the results in registers. Plain multiply-adds in Acc<T>.
#pragma once

#include <type_traits>

#include "cuda/kernel.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// Reads four adjacent values as one piece of memory (doubles as two), at a multiple of kFourBytes. The emulation
/// accesses each separately, for closer checks.
template <class T>
inline constexpr std::size_t kFourBytes = sizeof(T) < 4 ? 4 * sizeof(T) : 16;
#ifdef NORMLAB_CUDA_EMULATED
template <class T, class A>
void read_four(const T* from, A (&to)[4]) {
  for (int i = 0; i < 4; ++i) to[i] = A(from[i]);
}
template <class T, class A>
void write_four(T* to, const A (&from)[4]) {
  for (int i = 0; i < 4; ++i) to[i] = T(from[i]);
}
#else
template <class T>
struct InPieces {
  using Piece = std::conditional_t<kFourBytes<T> == 8, uint2, uint4>;
  static constexpr int kPieces = 4 * sizeof(T) / sizeof(Piece);
  Piece pieces[kPieces];
};
template <class T, class A>
__device__ __forceinline__ void read_four(const T* from, A (&to)[4]) {
  InPieces<T> in;
  NORMLAB_UNROLL
  for (int i = 0; i < in.kPieces; ++i) in.pieces[i] = reinterpret_cast<const typename InPieces<T>::Piece*>(from)[i];
  T values[4];
  memcpy(values, &in, sizeof values);
  NORMLAB_UNROLL
  for (int i = 0; i < 4; ++i) to[i] = A(values[i]);
}
template <class T, class A>
__device__ __forceinline__ void write_four(T* to, const A (&from)[4]) {
  T values[4];
  NORMLAB_UNROLL
  for (int i = 0; i < 4; ++i) values[i] = T(from[i]);
  InPieces<T> out;
  memcpy(&out, values, sizeof values);
  NORMLAB_UNROLL
  for (int i = 0; i < out.kPieces; ++i) reinterpret_cast<typename InPieces<T>::Piece*>(to)[i] = out.pieces[i];
}
#endif

/// The layout of tiles with rows of up to kWidth values of A in shared memory, and their distribution over lanes. A
/// warp is 4 lanes down and 8 across. Against a tile of kTileCols rows, lane (y, x) has the products of its warp's rows
/// y, y + 4, .. with rows x, x + 8, .. of the other tile. Of a result with kWidth columns it has four from 4 x on, four
/// from 4 x + 32 on and so forth. Rows are an odd multiple of 16 bytes apart, so that lanes which read adjacent rows
/// have no bank conflicts.
template <class A, int kWidthOfTile>
struct Tiling {
  using Value = A;
  static constexpr bool kWide = sizeof(A) == 8;
  static constexpr int kWidth = kWidthOfTile, kPad = 16 / static_cast<int>(sizeof(A)), kPitch = kWidth + kPad;
  static constexpr int kLanesDown = 4, kLanesAcross = 8;
  // Per thread. Two results of kWidth columns, as a gradient needs, must stay in registers.
  static constexpr int kRows = (kWidth <= 128 ? 4 : 2) / (kWide ? 2 : 1);
  static constexpr int kCols = kWidth <= 64 ? 4 : 2;
  static constexpr int kFours = kWidth / (4 * kLanesAcross);
  static constexpr int kWarpRows = kRows * kLanesDown, kTileCols = kCols * kLanesAcross,
                       kWeightPitch = kTileCols + kPad;

  /// Shared memory of `own` tiles with the rows of all warps, `others` with kTileCols rows, and the weights.
  static constexpr std::size_t bytes(int own, int others, int warps) {
    const int rows = warps * kWarpRows;
    return sizeof(A) * static_cast<std::size_t>((own * rows + others * kTileCols) * kPitch + rows * kWeightPitch);
  }
  /// As many warps per block, up to `most`, as fit the shared memory that every supported GPU has.
  static constexpr int most_warps(int own, int others, int most) {
    constexpr std::size_t kShared = 96 * 1024;
    while (most > 1 && bytes(own, others, most) > kShared) --most;
    return most;
  }

  using Scores = A[kRows][kCols];
  using Result = A[kRows][kFours][4];
};

/// The place of a thread.
template <class L>
struct Lane {
  int x = static_cast<int>(threadIdx.x) % L::kLanesAcross;
  int warp_row = static_cast<int>(threadIdx.x) / kWarp * L::kWarpRows;           // first row of its warp in the block
  int row = warp_row + static_cast<int>(threadIdx.x) % kWarp / L::kLanesAcross;  // its first row
  __device__ int row_of(int i) const { return row + i * L::kLanesDown; }
  __device__ int col_of(int j) const { return x + j * L::kLanesAcross; }
};

template <class L>
__device__ __forceinline__ int block_rows() {
  return static_cast<int>(blockDim.x) / kWarp * L::kWarpRows;
}

/// tile [fill, kWidth] = what read(row, column, values) gives, four values at a time. A thread requests several before
/// it waits for the first.
template <class L, class Read>
__device__ __forceinline__ void fill_tile(int fill, typename L::Value* tile, Read read) {
  constexpr int kFoursOfRow = L::kWidth / 4, kAtOnce = 4;
  const int fours = fill * kFoursOfRow, step = static_cast<int>(blockDim.x);
  for (int begin = static_cast<int>(threadIdx.x); begin < fours; begin += kAtOnce * step) {
    typename L::Value values[kAtOnce][4] = {};
    NORMLAB_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const int at = begin + i * step;
      if (at < fours) read(at / kFoursOfRow, at % kFoursOfRow * 4, values[i]);
    }
    NORMLAB_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const int at = begin + i * step;
      if (at < fours) write_four(tile + at / kFoursOfRow * L::kPitch + at % kFoursOfRow * 4, values[i]);
    }
  }
}
/// tile [fill, kWidth] = x [rows, dim] with row stride `stride`, zeros beyond. All threads of the block must call this.
/// `fours`: four values may be read at once.
template <class L, class T>
__device__ __forceinline__ void load_tile(const T* x, std::int64_t stride, int rows, int dim, bool fours, int fill,
                                          typename L::Value* tile) {
  using A = typename L::Value;
  if (fours)
    fill_tile<L>(fill, tile, [=](int r, int c, A(&values)[4]) {
      if (r < rows && c < dim) read_four(x + r * stride + c, values);
    });
  else
    fill_tile<L>(fill, tile, [=](int r, int c, A(&values)[4]) {
      NORMLAB_UNROLL
      for (int i = 0; i < 4; ++i)
        if (r < rows && c + i < dim) values[i] = A(x[r * stride + c + i]);
    });
}

/// Columns kFirst .. of `scores`: products over `dim` values of this lane's rows of `left` with those of `right`.
template <class L, int kFirst, int kCount, class A>
__device__ __forceinline__ void dot_columns(int dim, const A* left, const A* right, typename L::Scores& scores) {
  NORMLAB_NO_UNROLL
  for (int k = 0; k < dim; k += 4) {
    A a[L::kRows][4];
    NORMLAB_UNROLL
    for (int i = 0; i < L::kRows; ++i) read_four(left + i * L::kLanesDown * L::kPitch + k, a[i]);
    NORMLAB_UNROLL
    for (int j = kFirst; j < kFirst + kCount; ++j) {
      A b[4];
      read_four(right + j * L::kLanesAcross * L::kPitch + k, b);
      NORMLAB_UNROLL
      for (int i = 0; i < L::kRows; ++i)
        for (int c = 0; c < 4; ++c) scores[i][j] += a[i][c] * b[c];
    }
  }
}
template <class L, int kFirst = 0, class A>
__device__ __forceinline__ void dot_some_columns(int dim, int cols, const A* left, const A* right,
                                                 typename L::Scores& scores) {
  if (kFirst * L::kLanesAcross < cols) dot_columns<L, kFirst, 1>(dim, left, right, scores);
  if constexpr (kFirst + 1 < L::kCols) dot_some_columns<L, kFirst + 1>(dim, cols, left, right, scores);
}

/// scores = left right^T for this lane's rows and columns. Columns from `cols` on are zero or arbitrary.
template <class L, class A>
__device__ __forceinline__ void dot_rows(const Lane<L>& lane, int dim, int cols, const A* left, const A* right,
                                         typename L::Scores& scores) {
  NORMLAB_UNROLL
  for (int i = 0; i < L::kRows; ++i)
    for (int j = 0; j < L::kCols; ++j) scores[i][j] = 0;
  left += lane.row * L::kPitch;
  right += lane.x * L::kPitch;
  if (cols > L::kTileCols - L::kLanesAcross)
    dot_columns<L, 0, L::kCols>(dim, left, right, scores);
  else  // the last tile may have few: empty groups cost nothing
    dot_some_columns<L>(dim, cols, left, right, scores);
}

/// result += weights right, where `weights` [block's rows, kTileCols] are this warp's and `right` is a tile with `cols`
/// rows. Both have zeros up to a multiple of four.
template <class L, class A>
__device__ __forceinline__ void add_weighted_rows(const Lane<L>& lane, int cols, const A* weights, const A* right,
                                                  typename L::Result& result) {
  weights += lane.row * L::kWeightPitch;
  right += lane.x * 4;
  NORMLAB_NO_UNROLL
  for (int k = 0; k < cols; k += 4) {
    A w[L::kRows][4];
    NORMLAB_UNROLL
    for (int i = 0; i < L::kRows; ++i) read_four(weights + i * L::kLanesDown * L::kWeightPitch + k, w[i]);
    NORMLAB_UNROLL
    for (int c = 0; c < 4; ++c)
      for (int f = 0; f < L::kFours; ++f) {
        A b[4];
        read_four(right + (k + c) * L::kPitch + f * 4 * L::kLanesAcross, b);
        NORMLAB_UNROLL
        for (int i = 0; i < L::kRows; ++i)
          for (int e = 0; e < 4; ++e) result[i][f][e] += w[i][c] * b[e];
      }
  }
}

/// Writes this warp's weights, which only this warp reads.
template <class L, class A>
__device__ __forceinline__ void write_weights(const Lane<L>& lane, const A (&values)[L::kRows][L::kCols], A* weights) {
  __syncwarp();  // all lanes have read the old contents
  NORMLAB_UNROLL
  for (int i = 0; i < L::kRows; ++i)
    for (int j = 0; j < L::kCols; ++j) weights[lane.row_of(i) * L::kWeightPitch + lane.col_of(j)] = values[i][j];
  __syncwarp();
}

/// to [dim] (+)= factor times row i of a result.
template <class L, class T, class A>
__device__ __forceinline__ void put_row(const Lane<L>& lane, const A (&row)[L::kFours][4], A factor, int dim,
                                        bool fours, bool add, T* to) {
  NORMLAB_UNROLL
  for (int f = 0; f < L::kFours; ++f) {
    const int c = (f * L::kLanesAcross + lane.x) * 4;
    if (fours && c < dim) {
      A values[4] = {};
      if (add) read_four(to + c, values);
      NORMLAB_UNROLL
      for (int e = 0; e < 4; ++e) values[e] += factor * row[f][e];
      write_four(to + c, values);
    } else {
      NORMLAB_UNROLL
      for (int e = 0; e < 4; ++e)
        if (c + e < dim) put(to[c + e], factor * row[f][e], add);
    }
  }
}

/// Over the lanes with the same rows; the same bits in each.
template <class L, class A>
__device__ __forceinline__ A row_sum(A value) {
  for (int step = L::kLanesAcross / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}
template <class L, class A>
__device__ __forceinline__ A row_max(A value) {
  for (int step = L::kLanesAcross / 2; step > 0; step /= 2) {
    const A other = __shfl_xor_sync(kAllLanes, value, step);
    value = other > value ? other : value;
  }
  return value;
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
