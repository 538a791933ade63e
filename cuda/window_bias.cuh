// The gradient of a window's bias table: dS summed over windows and over pairs of tokens with the same offset. There
// are versions by tiles and on tensor cores for bf16. Both give partial sums, which column_sums adds up.
#pragma once

#include "cuda/attention.cuh"
#include "cuda/attention_backward.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// A token's place in a window as one number, offset * 4 + region. Differences of offsets are rows of the table;
/// regions differ between tokens that only the shift made neighbours.
using PlaceInWindow = int;

template <class A>
struct WindowBias {
  const A* table;  // [offsets, heads]
  int heads, window, shift_y, shift_x, down, across;
  static constexpr A kMask = -100;

  struct OfHead {
    const A* table;
    int heads, window, turned_y, turned_x;  // tokens from there on wrapped around

    __device__ PlaceInWindow place(int token) const {
      const int y = token / window, x = token % window;
      return (y * (2 * window - 1) + x) * 4 + (y >= turned_y ? 2 : 0) + (x >= turned_x ? 1 : 0);
    }
    __device__ A between(PlaceInWindow query, PlaceInWindow key) const {
      const int row = query / 4 - key / 4 + 2 * window * (window - 1);
      return table[std::int64_t{row} * heads] + (query % 4 != key % 4 ? kMask : A(0));
    }
  };
  /// The last row and the last column of windows hold what wrapped around.
  __device__ OfHead of(int image, int head) const {
    const int in_image = image % (down * across);
    const bool last_row = in_image / across == down - 1, last_col = in_image % across == across - 1;
    return {table + head, heads, window, last_row ? window - shift_y : window, last_col ? window - shift_x : window};
  }
};
/// Windows that one block adds: a function of the shape alone, which fixes the order of sums.
std::int64_t windows_of_chunk(std::int64_t windows) {
  constexpr std::int64_t kMostChunks = 128;
  return ceil_div(windows, kMostChunks);
}

constexpr int offsets_of(int window) { return (2 * window - 1) * (2 * window - 1); }

/// Two tiles of a window's tokens.
struct TilePair {
  int first, first_key, rows, cols;
};
/// terms[offset heads] = the sum of `values` [rows, cols] over pairs with that offset. All threads must call this.
template <class A>
__device__ void sum_by_offset(int window, TilePair pair, const A* values, int pitch, A* terms, int heads) {
  __syncthreads();  // the values are there
  const int span = 2 * window - 1;
  for (int offset = static_cast<int>(threadIdx.x); offset < span * span; offset += static_cast<int>(blockDim.x)) {
    const int dy = offset / span - (window - 1), dx = offset % span - (window - 1);
    A sum = 0;
    for (int r = 0; r < pair.rows; ++r) {
      const int token = pair.first + r, y = token / window - dy, x = token % window - dx;
      const int col = y * window + x - pair.first_key;
      if (y >= 0 && y < window && x >= 0 && x < window && col >= 0 && col < pair.cols) sum += values[r * pitch + col];
    }
    terms[std::int64_t{offset} * heads] = sum;
  }
}

/// terms [chunks, tiles of queries, tiles of keys, offsets, heads]: dS summed over the windows of a chunk and over
/// pairs with equal offsets between a tile of queries and one of keys. A block has a head, a chunk and two tiles. Its
/// threads have pairs of tokens while it iterates over the windows, and offsets at the end.
template <class T, int kWidth>
__global__ void __launch_bounds__(kBackwardWarps<Acc<T>, kWidth>* kWarp, kBackwardBlocks<Acc<T>, kWidth>)
    bias_terms(AttentionBackwardWork<T, WindowBias<Acc<T>>> work, std::int64_t chunk_windows, Acc<T>* terms) {
  using A = Acc<T>;
  using L = Tiling<A, kWidth>;
  NORMLAB_DYNAMIC_SHARED(A, memory);
  const AttentionDims& d = work.forward.dims;
  const int window = work.forward.bias.window, rows = block_rows<L>(), tokens = static_cast<int>(d.tokens),
            heads = static_cast<int>(d.heads), block = static_cast<int>(blockIdx.x);
  const int down = (tokens + rows - 1) / rows, across = (tokens + L::kTileCols - 1) / L::kTileCols;
  const int head = block % heads, pair = block / heads % (down * across), chunk = block / heads / (down * across);
  const int first = pair / across * rows, first_key = pair % across * L::kTileCols;
  const int own_rows = tokens - first < rows ? tokens - first : rows;
  BackwardTile<T, kWidth, WindowBias<A>, false> tile(work, memory);
  typename L::Scores total = {};
  const std::int64_t begin = chunk * chunk_windows,
                     end = begin + chunk_windows < d.batch ? begin + chunk_windows : d.batch;
  for (auto w = static_cast<int>(begin); w < end; ++w) {
    __syncthreads();  // all warps are done with the previous window
    tile.take({{w, head}, first, own_rows});
    tile.against(first_key);
    if (tile.idle()) continue;
    typename L::Scores p, ds;
    tile.scores(p, ds);
    NORMLAB_UNROLL
    for (int i = 0; i < L::kRows; ++i)
      for (int j = 0; j < L::kCols; ++j) total[i][j] += ds[i][j];
  }
  if (!tile.idle()) tile.write(total);
  sum_by_offset(window, {first, first_key, own_rows, tile.cols()}, tile.weights(), L::kWeightPitch,
                terms + (std::int64_t{chunk} * down * across + pair) * offsets_of(window) * heads + head, heads);
}

/// The same on tensor cores.
template <int kWidth, bool kDrops>
__global__ void __launch_bounds__(MmaTiling<kWidth>::kBackwardWarps* kWarp, MmaTiling<kWidth>::kBackwardBlocks)
    bias_terms_mma(AttentionBackwardWork<bf16, WindowBias<float>> work, std::int64_t chunk_windows, float* terms) {
  using L = MmaTiling<kWidth>;
  NORMLAB_DYNAMIC_SHARED(bf16, memory);
  const AttentionDims& d = work.forward.dims;
  const int window = work.forward.bias.window, rows = static_cast<int>(blockDim.x) / kWarp * L::kWarpRows,
            tokens = static_cast<int>(d.tokens), heads = static_cast<int>(d.heads),
            block = static_cast<int>(blockIdx.x);
  const int down = (tokens + rows - 1) / rows, across = (tokens + L::kTileCols - 1) / L::kTileCols;
  const int head = block % heads, pair = block / heads % (down * across), chunk = block / heads / (down * across);
  const int first = pair / across * rows, first_key = pair % across * L::kTileCols;
  const int own_rows = tokens - first < rows ? tokens - first : rows,
            cols = tokens - first_key < L::kTileCols ? tokens - first_key : L::kTileCols;
  MmaBackwardTile<kWidth, WindowBias<float>, false, kDrops> tile(work, L::tile_rows(tokens), memory);
  FragmentC total[L::kTileCols / 8] = {};
  const std::int64_t begin = chunk * chunk_windows,
                     end = begin + chunk_windows < d.batch ? begin + chunk_windows : d.batch;
  for (auto w = static_cast<int>(begin); w < end; ++w) {
    __syncthreads();  // all warps are done with the previous window
    tile.start({{w, head}, first, own_rows}, first_key);
    tile.arrive();
    tile.read_delta();
    if (tile.idle()) continue;
    tile.template against<true>(first_key, 0,
                                [&](int c, const FragmentC(&)[2], const FragmentC(&ds)[2], const bf16*, const bf16*) {
                                  NORMLAB_UNROLL
                                  for (int n = 0; n < 2; ++n)
                                    for (int e = 0; e < 4; ++e) total[c / 8 + n].x[e] += ds[n].x[e];
                                });
  }
  __syncthreads();  // the loaded data is no longer needed
  auto* values = reinterpret_cast<float*>(memory);
  if (!tile.idle()) {
    NORMLAB_UNROLL
    for (int n = 0; n < L::kTileCols / 8; ++n)
      for (int e = 0; e < 4; ++e)
        values[(tile.lane.warp * L::kWarpRows + tile.lane.row_of(e / 2)) * L::kTileCols + tile.lane.col_of(n, e % 2)] =
            total[n].x[e];
  }
  sum_by_offset(window, {first, first_key, own_rows, cols}, values, L::kTileCols,
                terms + (std::int64_t{chunk} * down * across + pair) * offsets_of(window) * heads + head, heads);
}

/// How a call's terms are computed: `rows` of [offsets, heads] each.
struct BiasPlan {
  std::int64_t chunk, rows;
  Launch grid;
};
template <class T>
BiasPlan plan_bias_terms(const AttentionDims& d) {
  BiasPlan plan{windows_of_chunk(d.batch), 0, {0}};
  const std::int64_t chunks = d.batch > 0 ? ceil_div(d.batch, plan.chunk) : 0;
  const auto by_tiles = [&](int block_rows, int tile_cols, int warps, std::size_t bytes) {
    plan.rows = chunks * ceil_div(d.tokens, block_rows) * ceil_div(d.tokens, tile_cols);
    plan.grid = {plan.rows * d.heads, warps * kWarp, bytes};
  };
  if (std::is_same_v<T, bf16> && d.head_dim <= kWidestMma) {
    for_mma_width<false>(d.head_dim, [&](auto width) {
      using L = MmaTiling<decltype(width)::kWidth>;
      const int warps = warps_of_block<L>(d.tokens, L::kBackwardWarps), rows = warps * L::kWarpRows;
      const std::size_t loaded =
                            L::bytes(2, 2, static_cast<int>(d.tokens), warps, L::tile_rows(static_cast<int>(d.tokens))),
                        summed = sizeof(float) * static_cast<std::size_t>(rows * L::kTileCols);
      by_tiles(rows, L::kTileCols, warps, loaded > summed ? loaded : summed);
    });
  } else {
    for_width<T>(d.head_dim, [&](auto width) {
      constexpr int kWidth = decltype(width)::kWidth;
      using L = Tiling<Acc<T>, kWidth>;
      const int warps = warps_of_block<L>(d.tokens, kBackwardWarps<Acc<T>, kWidth>);
      by_tiles(warps * L::kWarpRows, L::kTileCols, warps, L::bytes(2, 2, warps));
    });
  }
  return plan;
}

template <class T>
void run_bias_terms(const char* op, const BiasPlan& plan, const AttentionBackwardWork<T, WindowBias<Acc<T>>>& work,
                    Acc<T>* terms, const Stream& stream) {
  const std::int64_t dim = work.forward.dims.head_dim;
  if constexpr (std::is_same_v<T, bf16>)
    if (dim <= kWidestMma)
      return for_mma_width<false>(dim, [&](auto width) {
        constexpr int kWidth = decltype(width)::kWidth;
        launch(op, work.forward.keep ? bias_terms_mma<kWidth, true> : bias_terms_mma<kWidth, false>, plan.grid, stream,
               work, plan.chunk, terms);
      });
  for_width<T>(dim, [&](auto width) {
    launch(op, bias_terms<T, decltype(width)::kWidth>, plan.grid, stream, work, plan.chunk, terms);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
