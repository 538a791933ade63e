// Attention in bf16 on tensor cores, for heads of up to 128 values, padded with zeros to a multiple of 16. A warp has
// 16 queries at a time and iterates over the keys. Scores, softmax and all sums stay in float registers. The weights
// are rounded to bf16 for their product with the values, as on the CPU.
#pragma once

#include "cuda/attention_mma_tile.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// A tile of queries against a tile of keys: the softmax state of a warp's rows, and its step.
template <class L>
struct MmaSoftmax {
  float top[2], total[2];
  typename L::Result sums;

  /// Processes `cols` keys; s is computed anew. kAll: cols is kTileCols.
  template <bool kAll, class Exponent, class Kept>
  __device__ __forceinline__ void step(const MmaLane<L>& lane, const OwnRows<L, false>& queries, const bf16* keys,
                                       const bf16* values, int cols, Exponent&& exponent, Kept&& kept) {
    constexpr int kEights = L::kTileCols / 8;
    FragmentC s[kEights] = {};
    queries.template dot<kEights / 2>(keys, kAll ? L::kTileCols : cols, s);
    NORMLAB_UNROLL
    for (int n = 0; n < kEights; ++n)
      for (int e = 0; e < 2; ++e)
        exponent(lane.col_of(n, e), kAll || lane.col_of(n, e) < cols, s[n].x[e], s[n].x[2 + e]);
    NORMLAB_UNROLL
    for (int i = 0; i < 2; ++i) {
      float largest = top[i];
      NORMLAB_UNROLL
      for (int n = 0; n < kEights; ++n)
        for (int e = 0; e < 2; ++e) largest = std::fmax(largest, s[n].x[2 * i + e]);
      largest = quad_max(largest);
      const float shrink = exp2_of(top[i] - largest);
      top[i] = largest;
      total[i] *= shrink;
      NORMLAB_UNROLL
      for (FragmentC& sum : sums)
        for (int e = 0; e < 2; ++e) sum.x[2 * i + e] *= shrink;
      NORMLAB_UNROLL
      for (int n = 0; n < kEights; ++n)
        for (int e = 0; e < 2; ++e) {
          float& p = s[n].x[2 * i + e];
          p = exp2_of(p - largest);
          total[i] += p;
        }
    }
    kept(s);
    NORMLAB_UNROLL
    for (int n = 0; n < kEights; n += 2)
      if (kAll || 8 * n < cols) add_weighted<L>(rounded(s[n], s[n + 1]), values + 8 * n * L::kPitch, sums);
  }
};

/// y and lse of a block's queries. Weights so far are kept relative to the largest score, and sums are scaled down when
/// a larger one appears (Milakov and Gimelshein 2018; Dao 2023).
template <int kWidth, class Bias, bool kDrops>
__global__ void __launch_bounds__(MmaTiling<kWidth>::kForwardWarps* kWarp, MmaTiling<kWidth>::kForwardBlocks)
    attention_forward_mma(AttentionWork<bf16, Bias> work, int tile_rows, bf16* y, float* lse) {
  using L = MmaTiling<kWidth>;
  NORMLAB_DYNAMIC_SHARED(bf16, memory);
  const AttentionDims& d = work.dims;
  const int dim = static_cast<int>(d.head_dim), tokens = static_cast<int>(d.tokens), warps = block_warps(),
            stride = static_cast<int>(d.stride), tile_values = tile_rows * L::kPitch;
  const BlockPart at = part_of_mma_block<L>(d, tile_rows);
  const std::int64_t in = at.head.begin(d, d.stride), row = at.head.row(d);
  const auto bias = work.bias.of(at.head.image, at.head.head);
  const MmaLane<L> lane;
  bf16 *const own = memory + lane.warp * L::kWarpRows * L::kPitch, *const tiles =
                                                                       memory + warps * L::kWarpRows * L::kPitch;
  AsyncCopies copies;
  const CopyLane<L> of_block(static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)),
      of_warp(static_cast<int>(threadIdx.x) % kWarp, kWarp);
  const bf16 *next_keys = of_block.in(work.k + in, stride), *next_values = of_block.in(work.v + in, stride);
  const auto fetch = [&](int first, int stage) {
    bf16* keys = tiles + stage * 2 * tile_values;
    const int cols = tokens - first < tile_rows ? tokens - first : tile_rows, fill = up_to(16, cols);
    fetch_tile(of_block, next_keys, stride, cols, dim, work.eights, fill, keys, copies);
    fetch_tile(of_block, next_values, stride, cols, dim, work.eights, fill, keys + tile_values, copies);
    next_keys += tile_rows * stride;
    next_values += tile_rows * stride;
  };
  const float scale = work.scale * kLog2E;
  OwnRows<L, false> queries;
  queries.take(own);
  const int end = at.first + at.rows;
  for (int own_first = at.first + lane.warp * L::kWarpRows, pass = 0;; own_first += warps * L::kWarpRows, ++pass) {
    const int rows = end - own_first;  // of the warp, if positive
    if (pass > 0) {
      if (rows <= 0) return;
      __syncwarp();  // all lanes have read the old rows
    }
    if (rows > 0)
      fetch_tile(of_warp, of_warp.in(work.q + in + own_first * d.stride, stride), stride, rows, dim, work.eights,
                 L::kWarpRows, own, copies);
    if (pass == 0) fetch(0, 0);
    copies.wait();
    if (pass == 0)
      __syncthreads();
    else
      __syncwarp();

    MmaSoftmax<L> softmax = {
        {-std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}, {}, {}};
    decltype(bias.place(0)) query[2];
    NORMLAB_UNROLL
    for (int i = 0; i < 2; ++i) query[i] = bias.place(token_or_last(tokens, own_first + lane.row_of(i)));
    for (int first = 0, stage = 0; first < tokens; first += tile_rows, stage ^= 1) {
      const bool more = first + tile_rows < tokens;
      if (more) fetch(first + tile_rows, stage ^ 1);
      const bf16* keys = tiles + stage * 2 * tile_values;
      const int tile_end = more ? first + tile_rows : tokens;
      if (rows > 0) {
        NORMLAB_NO_UNROLL
        for (int from = first; from < tile_end; from += L::kTileCols, keys += L::kTileCols * L::kPitch) {
          const auto exponent = [&](int col, bool there, float& upper, float& lower) {
            const auto key = bias.place(token_or_last(tokens, from + col));
            upper =
                there ? scale * upper + kLog2E * bias.between(query[0], key) : -std::numeric_limits<float>::infinity();
            lower =
                there ? scale * lower + kLog2E * bias.between(query[1], key) : -std::numeric_limits<float>::infinity();
          };
          const auto kept = [&](FragmentC(&p)[L::kTileCols / 8]) {
            if constexpr (!kDrops) return;
            const std::uint8_t* keep = work.keep + (row + own_first) * tokens + from;
            NORMLAB_UNROLL
            for (int n = 0; n < L::kTileCols / 8; ++n)
              for (int i = 0; i < 2; ++i)
                for (int e = 0; e < 2; ++e)
                  if (lane.row_of(i) < rows && from + lane.col_of(n, e) < tokens)
                    p[n].x[2 * i + e] *=
                        keep[lane.row_of(i) * std::int64_t{tokens} + lane.col_of(n, e)] ? work.inverse_keep : 0.0f;
          };
          if (tile_end - from >= L::kTileCols)
            softmax.template step<true>(lane, queries, keys, keys + tile_values, L::kTileCols, exponent, kept);
          else
            softmax.template step<false>(lane, queries, keys, keys + tile_values, tile_end - from, exponent, kept);
        }
      }
      if (!more) break;
      copies.wait();
      __syncthreads();  // the next tiles are there, and no warp reads these
    }
    if (rows <= 0) return;
    float inverse[2];
    NORMLAB_UNROLL
    for (int i = 0; i < 2; ++i) {
      const float total = quad_sum(softmax.total[i]);
      inverse[i] = 1 / total;
      if (lane.pair == 0 && lane.row_of(i) < rows)
        lse[row + own_first + lane.row_of(i)] = softmax.top[i] * kLn2 + std::log(total);
    }
    put_rows(lane, softmax.sums, inverse, own, y + at.head.begin(d, d.width()) + own_first * d.width(),
             static_cast<int>(d.width()), rows, dim, work.eights, false);
  }
}

template <class Bias, bool kDrops>
void launch_attention_mma(const char* op, const AttentionWork<bf16, Bias>& work, Tensor y, Tensor lse,
                          const Stream& stream) {
  for_mma_width<kOrdinary<Bias, kDrops>>(work.dims.head_dim, [&](auto width) {
    constexpr int kWidth = decltype(width)::kWidth;
    using L = MmaTiling<kWidth>;
    const MmaPlan plan = plan_of_mma<L>(static_cast<int>(work.dims.tokens), 1, 0, L::kForwardWarps, L::kForwardBlocks);
    launch(op, attention_forward_mma<kWidth, Bias, kDrops>, launch_of_mma(work.dims, plan, L::kWarpRows), stream, work,
           plan.tile_rows, y.data<bf16>(), lse.data<float>());
  });
}
template <class Bias>
void run_attention_mma(const char* op, const AttentionWork<bf16, Bias>& work, Tensor y, Tensor lse,
                       const Stream& stream) {
  if (work.keep)
    launch_attention_mma<Bias, true>(op, work, y, lse, stream);
  else
    launch_attention_mma<Bias, false>(op, work, y, lse, stream);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
