// The backward pass of attention and window attention. With P the weights, recomputed from lse, M = keep / (1 - rate)
// and dP = (dy v^T) M:
//   dv = (P M)^T dy,  dS = P (dP - delta),  delta = dy . y, the row sums of dP P,
//   dq = dS k / sqrt(d),  dk = dS^T q / sqrt(d).
// Blocks that own queries compute dq, and blocks that own keys dk and dv, so that no block adds to another's output.
#pragma once

#include "cuda/attention.cuh"
#include "cuda/attention_mma_head.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// delta [B, H, N], one warp per row.
template <class T>
__global__ void attention_delta(AttentionDims d, const T* dy, const T* y, Acc<T>* delta) {
  const std::int64_t r = row_of_warp();
  if (r >= d.batch * d.heads * d.tokens) return;  // a whole warp
  const auto head = static_cast<int>(r / d.tokens), heads = static_cast<int>(d.heads);
  const std::int64_t at = HeadPart{head / heads, head % heads}.begin(d, d.width()) + r % d.tokens * d.width();
  const Acc<T> sum =
      warp_sum_of<Acc<T>>(d.head_dim, [&](std::int64_t c) { return Acc<T>(dy[at + c]) * Acc<T>(y[at + c]); });
  if (threadIdx.x % kWarp == 0) delta[r] = sum;
}

template <class A, int kWidth>
inline constexpr int kBackwardWarps = Tiling<A, kWidth>::most_warps(2, 2, kWidth <= 32 ? 6 : 4);
template <class A, int kWidth>
inline constexpr int kBackwardBlocks = std::is_same_v<A, float>&& kWidth == 64 ? 3 : 2;

/// P and dS between tiles of queries and keys. The block owns one tile and iterates over tiles of the other kind.
template <class T, int kWidth, class Bias, bool kOwnsKeys>
class BackwardTile {
 public:
  using A = Acc<T>;
  using L = Tiling<A, kWidth>;
  A *own, *own_up, *other, *other_up;  // queries with their dy, keys with their values

  __device__ __forceinline__ BackwardTile(const AttentionBackwardWork<T, Bias>& work, A* memory)
      : own(memory),
        own_up(own + block_rows<L>() * L::kPitch),
        other(own_up + block_rows<L>() * L::kPitch),
        other_up(other + L::kTileCols * L::kPitch),
        weights_(other_up + L::kTileCols * L::kPitch),
        work_(work),
        dims_(work.forward.dims) {}

  /// Loads the block's own tile. All threads must call this and against().
  __device__ __forceinline__ void take(const BlockPart& part) {
    part_ = part;
    row_ = part.head.row(dims_);
    bias_ = work_.forward.bias.of(part.head.image, part.head.head);
    load<kOwnsKeys>(part.first, part.rows, block_rows<L>(), own, own_up);
    NORMLAB_UNROLL
    for (int i = 0; i < L::kRows; ++i) {
      const int token = token_or_last(tokens(), part.first + lane.row_of(i));
      own_place_[i] = bias_.place(token);
      if constexpr (!kOwnsKeys) look_up(token, lse_[i], delta_[i]);
    }
  }
  /// Loads tokens first .. of the other kind and waits for all loads.
  __device__ __forceinline__ void against(int first) {
    first_ = first;
    cols_ = tokens() - first < L::kTileCols ? tokens() - first : L::kTileCols;
    load<!kOwnsKeys>(first, cols_, up_to(L::kLanesAcross, cols_), other, other_up);
    NORMLAB_UNROLL
    for (int j = 0; j < L::kCols; ++j) {
      const int token = token_or_last(tokens(), first + lane.col_of(j));
      other_place_[j] = bias_.place(token);
      if constexpr (kOwnsKeys) look_up(token, lse_[j], delta_[j]);
    }
    __syncthreads();
  }
  /// The warp has no row.
  __device__ __forceinline__ bool idle() const { return lane.warp_row >= part_.rows; }
  __device__ __forceinline__ int cols() const { return cols_; }
  __device__ __forceinline__ int tokens() const { return static_cast<int>(dims_.tokens); }

  /// P M and dS, with zeros in columns without a token.
  __device__ __forceinline__ void scores(typename L::Scores& p, typename L::Scores& ds) const {
    const AttentionWork<T, Bias>& forward = work_.forward;
    const int dim = static_cast<int>(dims_.head_dim);
    dot_rows(lane, dim, cols_, own, other, p);
    dot_rows(lane, dim, cols_, own_up, other_up, ds);
    NORMLAB_UNROLL
    for (int i = 0; i < L::kRows; ++i)
      for (int j = 0; j < L::kCols; ++j) {
        const int of_query = kOwnsKeys ? j : i;
        const bool there = lane.col_of(j) < cols_;
        const A plus =
            kOwnsKeys ? bias_.between(other_place_[j], own_place_[i]) : bias_.between(own_place_[i], other_place_[j]);
        const A weight = there ? std::exp(forward.scale * p[i][j] + plus - lse_[of_query]) : A(0);
        A kept = 1;
        if (forward.keep && there && lane.row_of(i) < part_.rows) {
          const int own_token = part_.first + lane.row_of(i), other_token = first_ + lane.col_of(j);
          const int query = kOwnsKeys ? other_token : own_token, key = kOwnsKeys ? own_token : other_token;
          kept = forward.keep[(row_ + query) * dims_.tokens + key] ? forward.inverse_keep : A(0);
        }
        p[i][j] = weight * kept;
        ds[i][j] = there ? weight * (ds[i][j] * kept - delta_[of_query]) : A(0);
      }
  }
  /// result += values times `right`, the rows of a tile of the other kind.
  __device__ __forceinline__ void add_weighted(const typename L::Scores& values, const A* right,
                                               typename L::Result& result) const {
    write_weights(lane, values, weights_);
    add_weighted_rows(lane, cols_, weights_, right, result);
  }
  __device__ __forceinline__ void write(const typename L::Scores& values) const {
    write_weights(lane, values, weights_);
  }
  __device__ __forceinline__ const A* weights() const { return weights_; }

  /// to [B, N, H d], with `stride` from token to token, (+)= factor times the results of the block's own tokens.
  __device__ __forceinline__ void put_rows(const typename L::Result& result, A factor, T* to, bool add) const {
    to += part_.head.begin(dims_, dims_.stride) + part_.first * dims_.stride;
    NORMLAB_UNROLL
    for (int i = 0; i < L::kRows; ++i)
      if (lane.row_of(i) < part_.rows)
        put_row(lane, result[i], factor, static_cast<int>(dims_.head_dim), work_.forward.fours, add,
                to + lane.row_of(i) * dims_.stride);
  }

  const Lane<L> lane;

 private:
  template <bool kKeys>
  __device__ __forceinline__ void load(int first, int rows, int fill, A* tile, A* up) const {
    const AttentionWork<T, Bias>& forward = work_.forward;
    const int dim = static_cast<int>(dims_.head_dim);
    const std::int64_t stride = dims_.stride, up_stride = kKeys ? stride : dims_.width();
    load_tile<L>((kKeys ? forward.k : forward.q) + part_.head.begin(dims_, stride) + first * stride, stride, rows, dim,
                 forward.fours, fill, tile);
    load_tile<L>((kKeys ? forward.v : work_.dy) + part_.head.begin(dims_, up_stride) + first * up_stride, up_stride,
                 rows, dim, forward.fours, fill, up);
  }
  __device__ __forceinline__ void look_up(int query, A& lse, A& delta) const {
    lse = work_.lse[row_ + query];
    delta = work_.delta[row_ + query];
  }

  using OfHead = decltype(std::declval<Bias>().of(0, 0));
  using Place = decltype(std::declval<OfHead>().place(0));
  static constexpr int kQueries = kOwnsKeys ? L::kCols : L::kRows;
  A* weights_;
  const AttentionBackwardWork<T, Bias>& work_;
  const AttentionDims& dims_;
  BlockPart part_;
  std::int64_t row_;
  int first_, cols_;
  OfHead bias_;
  Place own_place_[L::kRows], other_place_[L::kCols];
  A lse_[kQueries], delta_[kQueries];
};

/// dq of a tile of queries.
template <class T, int kWidth, class Bias>
__global__ void __launch_bounds__(kBackwardWarps<Acc<T>, kWidth>* kWarp, kBackwardBlocks<Acc<T>, kWidth>)
    attention_query_gradient(AttentionBackwardWork<T, Bias> work, T* dq, bool add) {
  using L = Tiling<Acc<T>, kWidth>;
  NORMLAB_DYNAMIC_SHARED(Acc<T>, memory);
  BackwardTile<T, kWidth, Bias, false> tile(work, memory);
  tile.take(part_of_block(work.forward.dims, block_rows<L>()));
  typename L::Result sums = {};
  for (int first = 0; first < tile.tokens(); first += L::kTileCols) {
    __syncthreads();  // all warps are done with the previous tiles
    tile.against(first);
    if (tile.idle()) continue;
    typename L::Scores p, ds;
    tile.scores(p, ds);
    tile.add_weighted(ds, tile.other, sums);
  }
  tile.put_rows(sums, work.forward.scale, dq, add);
}

/// dk and dv of a tile of keys; one that is null is skipped.
template <class T, int kWidth, class Bias>
__global__ void __launch_bounds__(kBackwardWarps<Acc<T>, kWidth>* kWarp, kBackwardBlocks<Acc<T>, kWidth>)
    attention_key_gradients(AttentionBackwardWork<T, Bias> work, T* dk, T* dv, bool add_k, bool add_v) {
  using L = Tiling<Acc<T>, kWidth>;
  NORMLAB_DYNAMIC_SHARED(Acc<T>, memory);
  BackwardTile<T, kWidth, Bias, true> tile(work, memory);
  tile.take(part_of_block(work.forward.dims, block_rows<L>()));
  typename L::Result of_keys = {}, of_values = {};
  for (int first = 0; first < tile.tokens(); first += L::kTileCols) {
    __syncthreads();
    tile.against(first);
    if (tile.idle()) continue;
    typename L::Scores p, ds;
    tile.scores(p, ds);
    if (dv) tile.add_weighted(p, tile.other_up, of_values);
    if (dk) tile.add_weighted(ds, tile.other, of_keys);
  }
  if (dk) tile.put_rows(of_keys, work.forward.scale, dk, add_k);
  if (dv) tile.put_rows(of_values, Acc<T>(1), dv, add_v);
}

/// Stores delta [B, H, N] in `delta`, then computes the wanted gradients. Returns whether it has also computed `sums`
/// [B, 3, H d], unless null: of dq, dk and dv over the tokens of an image.
template <class T, class Bias>
bool run_attention_backward(const char* op, const AttentionBackwardWork<T, Bias>& work, const T* y, Acc<T>* delta,
                            Gradient dq, Gradient dk, Gradient dv, double* sums, const Stream& stream) {
  const AttentionDims& d = work.forward.dims;
  if constexpr (std::is_same_v<T, bf16>)
    if (d.head_dim <= kWidestMma) return run_attention_backward_mma(op, work, y, delta, dq, dk, dv, sums, stream);
  launch(op, attention_delta<T>, warp_a_row(d.batch * d.heads * d.tokens), stream, d, work.dy, y, delta);
  for_width<T>(d.head_dim, [&](auto width) {
    constexpr int kWidth = decltype(width)::kWidth;
    const Launch grid = launch_of_heads<Tiling<Acc<T>, kWidth>>(d, 2, 2, kBackwardWarps<Acc<T>, kWidth>);
    if (dq) launch(op, attention_query_gradient<T, kWidth, Bias>, grid, stream, work, dq.to.data<T>(), adds(dq));
    if (dk || dv)
      launch(op, attention_key_gradients<T, kWidth, Bias>, grid, stream, work, dk.to.data<T>(), dv.to.data<T>(),
             adds(dk), adds(dv));
  });
  return false;
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
