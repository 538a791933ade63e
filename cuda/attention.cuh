// The forward pass of attention and window attention: by tiles of queries, with an online softmax over tiles of keys.
#pragma once

#include "cuda/attention_mma.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// The most warps per block, and the number of blocks that should fit a multiprocessor at once, which limits a
/// thread's registers.
template <class A, int kWidth>
inline constexpr int kForwardWarps = Tiling<A, kWidth>::most_warps(1, 2, 6);
inline constexpr int kForwardBlocks = 2;

/// y and lse of a tile of queries. Weights so far are kept relative to the largest score, and sums are scaled down when
/// a larger one appears (Milakov and Gimelshein 2018; Dao et al. 2022).
template <class T, int kWidth, class Bias>
__global__ void __launch_bounds__(kForwardWarps<Acc<T>, kWidth>* kWarp, kForwardBlocks)
    attention_forward(AttentionWork<T, Bias> work, T* y, Acc<T>* lse) {
  using A = Acc<T>;
  using L = Tiling<A, kWidth>;
  NORMLAB_DYNAMIC_SHARED(A, queries);
  const int rows = block_rows<L>(), dim = static_cast<int>(work.dims.head_dim),
            tokens = static_cast<int>(work.dims.tokens);
  A *const keys = queries + rows * L::kPitch, *const values = keys + L::kTileCols * L::kPitch,
           *const weights = values + L::kTileCols * L::kPitch;
  const AttentionDims& d = work.dims;
  const BlockPart at = part_of_block(d, rows);
  const std::int64_t in = at.head.begin(d, d.stride), row = at.head.row(d);
  const auto bias = work.bias.of(at.head.image, at.head.head);
  const Lane<L> lane;
  load_tile<L>(work.q + in + at.first * d.stride, d.stride, at.rows, dim, work.fours, rows, queries);

  typename L::Result sums = {};
  A top[L::kRows], total[L::kRows];
  decltype(bias.place(0)) query[L::kRows];
  NORMLAB_UNROLL
  for (int i = 0; i < L::kRows; ++i) {
    top[i] = -std::numeric_limits<A>::infinity();
    total[i] = 0;
    query[i] = bias.place(token_or_last(tokens, at.first + lane.row_of(i)));
  }
  for (int first = 0; first < tokens; first += L::kTileCols) {
    const int cols = tokens - first < L::kTileCols ? tokens - first : L::kTileCols;
    __syncthreads();  // all warps are done with the previous tiles
    const int fill = up_to(L::kLanesAcross, cols);
    load_tile<L>(work.k + in + first * d.stride, d.stride, cols, dim, work.fours, fill, keys);
    load_tile<L>(work.v + in + first * d.stride, d.stride, cols, dim, work.fours, fill, values);
    __syncthreads();
    if (lane.warp_row >= at.rows) continue;  // a whole warp
    typename L::Scores s;
    dot_rows(lane, dim, cols, queries, keys, s);
    decltype(bias.place(0)) key[L::kCols];
    NORMLAB_UNROLL
    for (int j = 0; j < L::kCols; ++j) key[j] = bias.place(token_or_last(tokens, first + lane.col_of(j)));
    NORMLAB_UNROLL
    for (int i = 0; i < L::kRows; ++i) {
      A largest = top[i];
      NORMLAB_UNROLL
      for (int j = 0; j < L::kCols; ++j) {
        s[i][j] = lane.col_of(j) < cols ? work.scale * s[i][j] + bias.between(query[i], key[j])
                                        : -std::numeric_limits<A>::infinity();
        largest = s[i][j] > largest ? s[i][j] : largest;
      }
      largest = row_max<L>(largest);
      const A shrink = std::exp(top[i] - largest);
      top[i] = largest;
      total[i] *= shrink;
      NORMLAB_UNROLL
      for (int f = 0; f < L::kFours; ++f)
        for (int e = 0; e < 4; ++e) sums[i][f][e] *= shrink;
      NORMLAB_UNROLL
      for (int j = 0; j < L::kCols; ++j) {
        s[i][j] = std::exp(s[i][j] - largest);
        total[i] += s[i][j];
      }
    }
    if (work.keep) {
      const std::uint8_t* kept = work.keep + (row + at.first + lane.row) * d.tokens + first + lane.x;
      NORMLAB_UNROLL
      for (int i = 0; i < L::kRows; ++i, kept += L::kLanesDown * d.tokens)
        for (int j = 0; j < L::kCols; ++j)
          if (lane.row_of(i) < at.rows && lane.col_of(j) < cols)
            s[i][j] *= kept[j * L::kLanesAcross] ? work.inverse_keep : A(0);
    }
    write_weights(lane, s, weights);
    add_weighted_rows(lane, cols, weights, values, sums);
  }
  if (lane.warp_row >= at.rows) return;
  T* out = y + at.head.begin(d, d.width()) + at.first * d.width();
  NORMLAB_UNROLL
  for (int i = 0; i < L::kRows; ++i) {
    const A sum = row_sum<L>(total[i]);
    if (lane.row_of(i) >= at.rows) continue;
    put_row(lane, sums[i], 1 / sum, dim, work.fours, false, out + lane.row_of(i) * d.width());
    if (lane.x == 0) lse[row + at.first + lane.row_of(i)] = top[i] + std::log(sum);
  }
}

template <class L>
Launch launch_of_heads(const AttentionDims& d, int own, int others, int most) {
  const int warps = warps_of_block<L>(d.tokens, most);
  return {d.batch * d.heads * ceil_div(d.tokens, warps * L::kWarpRows), warps * kWarp, L::bytes(own, others, warps)};
}

template <class T, class Bias>
void run_attention(const char* op, const AttentionWork<T, Bias>& work, Tensor y, Tensor lse, const Stream& stream) {
  if constexpr (std::is_same_v<T, bf16>)
    if (work.dims.head_dim <= kWidestMma) return run_attention_mma(op, work, y, lse, stream);
  for_width<T>(work.dims.head_dim, [&](auto width) {
    constexpr int kWidth = decltype(width)::kWidth;
    using L = Tiling<Acc<T>, kWidth>;
    launch(op, attention_forward<T, kWidth, Bias>, launch_of_heads<L>(work.dims, 1, 2, kForwardWarps<Acc<T>, kWidth>),
           stream, work, y.data<T>(), lse.data<Acc<T>>());
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
