// The backward pass of attention on tensor cores if a block can hold a head: one kernel computes the scores once, with a
// warp for every 16 tokens. Other heads take the two kernels of attention_mma_backward.cuh. The bits are the same.
#pragma once

#include "cuda/attention_mma_backward.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// The most warps of a block with a whole head; its registers limit the width.
constexpr int kHeadWarps = 13, kWidestHead = 64;

/// delta, dq, dk and dv of a block's head, whose scores are computed once. dS waits in shared memory until the keys are
/// done; then each warp has the queries with its keys' numbers. sums [B, 3, H d], unless null: of dq, dk and dv over the
/// tokens of an image, if none of the three is added.
template <int kWidth, class Bias, bool kDrops>
__global__ void __launch_bounds__(kHeadWarps* kWarp, 1)
    attention_gradients_mma(AttentionBackwardWork<bf16, Bias> work, int tile_rows, const bf16* y, float* delta,
                            bf16* dq, bf16* dk, bf16* dv, bool add_q, bool add_k, bool add_v, double* sums) {
  using L = MmaTiling<kWidth>;
  NORMLAB_DYNAMIC_SHARED(bf16, memory);
  MmaBackwardTile<kWidth, Bias, true, kDrops, true> tile(work, tile_rows, memory);
  const BlockPart part = part_of_mma_block<L>(work.forward.dims, tile_rows);
  tile.start(part, 0);
  const auto output = tile.read_output(y);
  tile.arrive();
  float* const own_sums = tile.row_sums() + tile.lane.warp * 3 * kWidth;
  tile.make_delta(output, delta);
  __syncthreads();
  {
    typename L::Result of_keys = {}, of_values = {};
    tile.template against<false>(
        0, 0, [&](int c, const FragmentC(&p)[2], const FragmentC(&ds)[2], const bf16* queries, const bf16* up) {
          add_weighted<L>(rounded(p[0], p[1]), up, of_values);
          add_weighted<L>(rounded(ds[0], ds[1]), queries, of_keys);
          tile.write_gradients(c, ds);
        });
    // Through the own values, since other warps still need the keys.
    tile.put(of_values, 1, 1, dv, add_v);
    tile.put(of_keys, work.forward.scale, 1, dk, add_k);
    if (sums) {
      tile.sum_rows(of_keys, work.forward.scale, own_sums + kWidth);
      tile.sum_rows(of_values, 1, own_sums + 2 * kWidth);
    }
  }
  __syncthreads();
  typename L::Result of_queries = {};
  NORMLAB_NO_UNROLL
  for (int g = 0; g < block_warps(); ++g)
    add_weighted<L>(
        load_a_trans(tile.gradients() + 16 * (g * tile.gradients_pitch() + tile.lane.warp), tile.gradients_pitch()),
        tile.keys_of(g), of_queries);
  tile.put(of_queries, work.forward.scale, 1, dq, add_q);
  if (!sums) return;
  tile.sum_rows(of_queries, work.forward.scale, own_sums);
  __syncthreads();
  const AttentionDims& d = work.forward.dims;
  for (int i = static_cast<int>(threadIdx.x); i < 3 * kWidth; i += static_cast<int>(blockDim.x)) {
    const int which = i / kWidth, c = i % kWidth;
    if (c >= static_cast<int>(d.head_dim)) continue;
    double sum = 0;
    for (int w = 0; w < block_warps(); ++w) sum += double(tile.row_sums()[w * 3 * kWidth + i]);
    sums[(std::int64_t{part.head.image} * 3 + which) * d.width() + part.head.head * d.head_dim + c] = sum;
  }
}
/// How a block holds a head of `tokens`; no warps if it cannot.
template <class L>
MmaPlan plan_of_mma_head(int tokens) {
  const int warps = up_to(L::kWarpRows, tokens) / L::kWarpRows, rows = warps * L::kWarpRows;
  const MmaPlan plan{warps, rows,
                     L::bytes(2, 2, rows, warps, rows) + sizeof(bf16) * static_cast<std::size_t>(rows * (rows + 8)) +
                         sizeof(float) * static_cast<std::size_t>(warps * 3 * L::kWidth)};
  return warps <= kHeadWarps && L::kWidth <= kWidestHead && blocks_fit(1, plan.bytes) ? plan : MmaPlan{};
}

/// Stores delta [B, H, N] in `delta`, then computes the wanted gradients. Returns whether `sums`, unless null, has been
/// computed.
template <class Bias, bool kDrops>
bool launch_gradients_mma(const char* op, const AttentionBackwardWork<bf16, Bias>& work, const bf16* y, float* delta,
                          Gradient dq, Gradient dk, Gradient dv, double* sums, const Stream& stream) {
  bool summed = false;
  for_mma_width<kOrdinary<Bias, kDrops>>(work.forward.dims.head_dim, [&](auto width) {
    constexpr int kWidth = decltype(width)::kWidth;
    using L = MmaTiling<kWidth>;
    if constexpr (kWidth <= kWidestHead)
      if (const MmaPlan plan = plan_of_mma_head<L>(static_cast<int>(work.forward.dims.tokens));
          plan.warps > 0 && dq && dk && dv) {
        summed = sums && !adds(dq) && !adds(dk) && !adds(dv);
        return launch(op, attention_gradients_mma<kWidth, Bias, kDrops>,
                      launch_of_mma(work.forward.dims, plan, L::kWarpRows), stream, work, plan.tile_rows, y, delta,
                      dq.to.data<bf16>(), dk.to.data<bf16>(), dv.to.data<bf16>(), adds(dq), adds(dk), adds(dv),
                      summed ? sums : nullptr);
      }
    const MmaPlan plan =
        plan_of_mma<L>(static_cast<int>(work.forward.dims.tokens), 2, 2, L::kBackwardWarps, L::kBackwardBlocks);
    const Launch grid = launch_of_mma(work.forward.dims, plan, L::kWarpRows);
    launch(op, attention_query_gradient_mma<kWidth, Bias, kDrops>, grid, stream, work, plan.tile_rows, y, delta,
           dq.to.data<bf16>(), adds(dq));
    if (dk || dv)
      launch(op, attention_key_gradients_mma<kWidth, Bias, kDrops>, grid, stream, work, plan.tile_rows,
             dk.to.data<bf16>(), dv.to.data<bf16>(), adds(dk), adds(dv));
  });
  return summed;
}
template <class Bias>
bool run_attention_backward_mma(const char* op, const AttentionBackwardWork<bf16, Bias>& work, const bf16* y,
                                float* delta, Gradient dq, Gradient dk, Gradient dv, double* sums,
                                const Stream& stream) {
  return work.forward.keep ? launch_gradients_mma<Bias, true>(op, work, y, delta, dq, dk, dv, sums, stream)
                           : launch_gradients_mma<Bias, false>(op, work, y, delta, dq, dk, dv, sums, stream);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
