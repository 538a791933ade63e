// The backward pass of attention in bf16 on tensor cores, by the formulas of attention_backward.cuh. P M and dS are
// rounded to bf16 for their products, as on the CPU; everything else is float. Blocks that own queries run first and
// also compute delta, since they read dy anyway.
#pragma once

#include "cuda/attention_mma.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

struct alignas(8) FloatPair {
  float x[2];
};

/// P M and dS between a block's own tile of queries or keys and the tiles of the other kind.
template <int kWidth, class Bias, bool kOwnsKeys, bool kDrops>
class MmaBackwardTile {
 public:
  using L = MmaTiling<kWidth>;
  const MmaLane<L> lane;

  __device__ __forceinline__ MmaBackwardTile(const AttentionBackwardWork<bf16, Bias>& work, bf16* memory)
      : work_(work),
        dims_(work.forward.dims),
        tokens_(static_cast<int>(dims_.tokens)),
        dim_(static_cast<int>(dims_.head_dim)),
        rows_(static_cast<int>(blockDim.x) / kWarp * L::kWarpRows),
        tile_rows_(L::tile_rows(tokens_)),
        copy_lane_(static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)),
        own_(memory),
        tiles_(memory + 2 * rows_ * L::kPitch) {}

  /// Starts to load the block's own tile and the other kind's tokens from `first` on. All threads must call this and
  /// arrive(), after which both are there.
  __device__ __forceinline__ void take(const BlockPart& part, int first) {
    part_ = part;
    row_ = part.of.row(dims_);
    bias_ = work_.forward.bias.of(part.of.image, part.of.head);
    const bf16 *rows, *up;
    place<kOwnsKeys>(part.first, rows, up);
    load<kOwnsKeys>(rows, up, part.rows, rows_, own_, own_ + rows_ * L::kPitch);
    place<!kOwnsKeys>(first, next_, next_up_);
    fetch(first);
  }
  __device__ __forceinline__ void arrive() {
    copies_.wait();
    __syncthreads();
    own_rows_.take(own_ + lane.warp_row * L::kPitch);
    own_up_.take(own_ + (rows_ + lane.warp_row) * L::kPitch);
    NORMLAB_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int token = token_or_last(tokens_, part_.first + lane.row_of(i));
      own_place_[i] = bias_.place(token);
      if constexpr (!kOwnsKeys) lse_[i] = kLog2E * work_.lse[row_ + token];
    }
  }
  /// A lane's part of y's rows that belong to the own queries.
  struct Output {
    static constexpr int kPieces = (kWidth + 31) / 32;
    alignas(16) bf16 x[2][kPieces][8];
  };
  /// Loads them; needs no other data, so that it overlaps with the tiles' copies.
  __device__ __forceinline__ Output read_output(const bf16* y) const {
    Output output;
    y += part_.of.begin(dims_, dims_.width());
    NORMLAB_UNROLL
    for (int i = 0; i < 2; ++i)
      for (int piece = 0; piece < Output::kPieces; ++piece) {
        const int token = part_.first + lane.row_of(i), c = 32 * piece + lane.pair * 4;
        const bf16* from = y + token * dims_.width() + c;
        bf16* to = output.x[i][piece];
        const bool there = token < tokens_ && c < dim_;
        if (there && work_.forward.eights) {
          copy_eight(from, to);
        } else {
          NORMLAB_UNROLL
          for (int e = 0; e < 8; ++e) to[e] = there && c + e < dim_ ? from[e] : bf16(0.0f);
        }
      }
    return output;
  }
  /// Computes delta of the block's own queries and stores it in memory; read_delta() reads it from there.
  __device__ __forceinline__ void make_delta(const Output& output, float* delta) {
    NORMLAB_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int token = part_.first + lane.row_of(i);
      const bf16* up = own_ + (rows_ + lane.row_of(i)) * L::kPitch + lane.pair * 4;
      float sum = 0;
      NORMLAB_UNROLL
      for (int piece = 0; piece < Output::kPieces; ++piece) {
        if (32 * piece + lane.pair * 4 >= kWidth) break;
        alignas(16) bf16 values[8];
        copy_eight(up + 32 * piece, values);
        NORMLAB_UNROLL
        for (int e = 0; e < 8; ++e) sum += float(output.x[i][piece][e]) * float(values[e]);
      }
      delta_[i] = quad_sum(sum);
      if (lane.pair == 0 && token < tokens_) delta[row_ + token] = delta_[i];
    }
  }
  __device__ __forceinline__ void read_delta() {
    NORMLAB_UNROLL
    for (int i = 0; i < 2; ++i) delta_[i] = work_.delta[row_ + token_or_last(tokens_, part_.first + lane.row_of(i))];
  }
  /// The warp has no row.
  __device__ __forceinline__ bool idle() const { return lane.warp_row >= part_.rows; }
  __device__ __forceinline__ int tokens() const { return tokens_; }

  /// Calls f(column, P M, dS, 16 rows of the other tile, the same rows of its dy or v) for every 16 tokens of the
  /// other kind.
  template <class F>
  __device__ __forceinline__ void against_all(F&& f) {
    for (int first = 0; first < tokens_; first += L::kTileCols) {
      const bool more = first + L::kTileCols < tokens_;
      if (more) fetch(first + L::kTileCols);
      if (!idle()) against<false>(first, f);
      if (!more) break;
      copies_.wait();
      __syncthreads();  // the next tiles are there, and no warp reads these
    }
  }
  /// The same for the tile of tokens first .. only, which must be loaded. kUnrolled: f is called with constant columns.
  template <bool kUnrolled, class F>
  __device__ __forceinline__ void against(int first, F&& f) {
    const bf16* rows = stage(first);
    const FloatPair* terms = rows_of_stage(first) + lane.pair / 2;
    const int cols = tokens_ - first < L::kTileCols ? tokens_ - first : L::kTileCols;
    const auto sixteen = [&](int c) {
      FragmentC p[2], ds[2];
      scores(first, c, cols, rows, terms, p, ds);
      f(c, p, ds, rows, rows + tile_rows_ * L::kPitch);
      rows += 16 * L::kPitch;
      terms += 16 / 2;
    };
    if constexpr (kUnrolled) {
      NORMLAB_UNROLL
      for (int c = 0; c < L::kTileCols; c += 16)
        if (c < cols) sixteen(c);
    } else {
      NORMLAB_NO_UNROLL
      for (int c = 0; c < cols; c += 16) sixteen(c);
    }
  }

  /// to [B, N, H d], with `stride` from token to token, (+)= factor times the results of the block's own tokens.
  /// `which` is the own tile that is no longer needed.
  __device__ __forceinline__ void put(const typename L::Result& result, float factor, int which, bf16* to, bool add) {
    const int first = part_.first + lane.warp_row;
    put_rows(lane, result, {factor, factor}, own_ + (which * rows_ + lane.warp_row) * L::kPitch,
             to + part_.of.begin(dims_, dims_.stride) + first * dims_.stride, static_cast<int>(dims_.stride),
             part_.rows - lane.warp_row, dim_, work_.forward.eights, add);
  }

 private:
  using OfHead = decltype(std::declval<Bias>().of(0, 0));
  using Place = decltype(std::declval<OfHead>().place(0));

  /// The two tiles of the stage that holds tokens first .. of the other kind.
  __device__ __forceinline__ bf16* stage(int first) const {
    return tiles_ + first / L::kTileCols % 2 * 2 * tile_rows_ * L::kPitch;
  }
  /// lse and delta of that stage's queries.
  __device__ __forceinline__ FloatPair* rows_of_stage(int first) const {
    const int stages = tokens_ > L::kTileCols ? 2 : 1;
    return reinterpret_cast<FloatPair*>(tiles_ + stages * 2 * tile_rows_ * L::kPitch) +
           first / L::kTileCols % 2 * tile_rows_;
  }
  /// Keys or queries and what belongs to them, v or dy, from token `first` on.
  template <bool kKeys>
  __device__ __forceinline__ void place(int first, const bf16*& rows, const bf16*& up) const {
    const AttentionWork<bf16, Bias>& forward = work_.forward;
    const std::int64_t up_stride = kKeys ? dims_.stride : dims_.width();
    rows = copy_lane_.in((kKeys ? forward.k : forward.q) + part_.of.begin(dims_, dims_.stride) + first * dims_.stride,
                         static_cast<int>(dims_.stride));
    up = copy_lane_.in((kKeys ? forward.v : work_.dy) + part_.of.begin(dims_, up_stride) + first * up_stride,
                       static_cast<int>(up_stride));
  }
  template <bool kKeys>
  __device__ __forceinline__ void load(const bf16* rows, const bf16* up, int count, int fill, bf16* tile,
                                       bf16* up_tile) {
    const AttentionWork<bf16, Bias>& forward = work_.forward;
    const auto stride = static_cast<int>(dims_.stride), up_stride = kKeys ? stride : static_cast<int>(dims_.width());
    fetch_tile(copy_lane_, rows, stride, count, dim_, forward.eights, fill, tile, copies_);
    fetch_tile(copy_lane_, up, up_stride, count, dim_, forward.eights, fill, up_tile, copies_);
  }
  __device__ __forceinline__ void fetch(int first) {
    bf16* other = stage(first);
    const int cols = tokens_ - first < L::kTileCols ? tokens_ - first : L::kTileCols, fill = up_to(16, cols);
    load<!kOwnsKeys>(next_, next_up_, cols, fill, other, other + tile_rows_ * L::kPitch);
    next_ += L::kTileCols * static_cast<int>(dims_.stride);
    next_up_ += L::kTileCols * static_cast<int>(kOwnsKeys ? dims_.width() : dims_.stride);
    if constexpr (kOwnsKeys) {
      float* to = rows_of_stage(first)->x;
      for (int r = static_cast<int>(threadIdx.x); r < fill; r += static_cast<int>(blockDim.x)) {
        const std::int64_t query = row_ + token_or_last(tokens_, first + r);
        copies_.template copy<4>(to + r, work_.lse + query, true);
        copies_.template copy<4>(to + tile_rows_ + r, work_.delta + query, true);
      }
    }
  }

  /// P M and dS of 16 columns from `c` on, with zeros in columns without a token.
  __device__ __forceinline__ void scores(int first, int c, int cols, const bf16* other, const FloatPair* terms,
                                         FragmentC (&p)[2], FragmentC (&ds)[2]) const {
    const AttentionWork<bf16, Bias>& forward = work_.forward;
    NORMLAB_UNROLL
    for (int n = 0; n < 2; ++n) p[n] = ds[n] = {};
    own_rows_.template dot<1>(other, 16, p);
    own_up_.template dot<1>(other + tile_rows_ * L::kPitch, 16, ds);
    const float scale = forward.scale * kLog2E;
    NORMLAB_UNROLL
    for (int n = 0; n < 2; ++n) {
      FloatPair lse, delta;  // of the other tile's queries
      if constexpr (kOwnsKeys) {
        lse = terms[8 / 2 * n];
        delta = terms[tile_rows_ / 2 + 8 / 2 * n];
      }
      for (int e = 0; e < 2; ++e) {
        const int col = c + lane.col_of(n, e);
        const bool there = col < cols;
        const Place place = bias_.place(token_or_last(tokens_, first + col));
        NORMLAB_UNROLL
        for (int i = 0; i < 2; ++i) {
          const float plus = kOwnsKeys ? bias_.between(place, own_place_[i]) : bias_.between(own_place_[i], place);
          const float of_lse = kOwnsKeys ? kLog2E * lse.x[e] : lse_[i], of_delta = kOwnsKeys ? delta.x[e] : delta_[i];
          float &weight = p[n].x[2 * i + e], &gradient = ds[n].x[2 * i + e];
          weight = there ? exp2_of(scale * weight + (kLog2E * plus - of_lse)) : 0.0f;
          float kept = 1;
          if (kDrops && there && lane.row_of(i) < part_.rows) {
            const int own_token = part_.first + lane.row_of(i), other_token = first + col;
            const int query = kOwnsKeys ? other_token : own_token, key = kOwnsKeys ? own_token : other_token;
            kept = forward.keep[(row_ + query) * tokens_ + key] ? forward.inverse_keep : 0.0f;
          }
          gradient = weight * (gradient * kept - of_delta);
          weight *= kept;
        }
      }
    }
  }

  const AttentionBackwardWork<bf16, Bias>& work_;
  const AttentionDims& dims_;
  const int tokens_, dim_, rows_, tile_rows_;
  const CopyLane<L> copy_lane_;
  bf16 *const own_, *const tiles_;
  const bf16 *next_, *next_up_;  // the lane's values of the next tiles of the other kind
  AsyncCopies copies_;
  BlockPart part_;
  std::int64_t row_;
  OfHead bias_;
  OwnRows<L, L::kKeepsOwn> own_rows_;
  OwnRows<L, kOwnsKeys ? L::kKeepsUp : L::kKeepsOwn> own_up_;
  Place own_place_[2];
  float lse_[2], delta_[2];  // of own queries
};

/// delta and, unless null, dq of a tile of queries.
template <int kWidth, class Bias, bool kDrops>
__global__ void __launch_bounds__(MmaTiling<kWidth>::kBackwardWarps* kWarp, MmaTiling<kWidth>::kBackwardBlocks)
    attention_query_gradient_mma(AttentionBackwardWork<bf16, Bias> work, const bf16* y, float* delta, bf16* dq,
                                 bool add) {
  using L = MmaTiling<kWidth>;
  NORMLAB_DYNAMIC_SHARED(bf16, memory);
  MmaBackwardTile<kWidth, Bias, false, kDrops> tile(work, memory);
  tile.take(part_of_block(work.forward.dims, static_cast<int>(blockDim.x) / kWarp * L::kWarpRows), 0);
  const auto output = tile.read_output(y);
  tile.arrive();
  tile.make_delta(output, delta);
  if (!dq) return;
  typename L::Result sums = {};
  tile.against_all([&](int, const FragmentC(&)[2], const FragmentC(&ds)[2], const bf16* keys, const bf16*) {
    add_weighted<L>(rounded(ds[0], ds[1]), keys, sums);
  });
  if (!tile.idle()) tile.put(sums, work.forward.scale, 0, dq, add);
}

/// dk and dv of a tile of keys; one that is null is skipped.
template <int kWidth, class Bias, bool kDrops>
__global__ void __launch_bounds__(MmaTiling<kWidth>::kBackwardWarps* kWarp, MmaTiling<kWidth>::kBackwardBlocks)
    attention_key_gradients_mma(AttentionBackwardWork<bf16, Bias> work, bf16* dk, bf16* dv, bool add_k, bool add_v) {
  using L = MmaTiling<kWidth>;
  NORMLAB_DYNAMIC_SHARED(bf16, memory);
  MmaBackwardTile<kWidth, Bias, true, kDrops> tile(work, memory);
  tile.take(part_of_block(work.forward.dims, static_cast<int>(blockDim.x) / kWarp * L::kWarpRows), 0);
  tile.arrive();
  typename L::Result of_keys = {}, of_values = {};
  tile.against_all([&](int, const FragmentC(&p)[2], const FragmentC(&ds)[2], const bf16* queries, const bf16* up) {
    add_weighted<L>(rounded(p[0], p[1]), up, of_values);
    add_weighted<L>(rounded(ds[0], ds[1]), queries, of_keys);
  });
  if (tile.idle()) return;
  if (dk) tile.put(of_keys, work.forward.scale, 0, dk, add_k);
  if (dv) tile.put(of_values, 1, 1, dv, add_v);
}

/// Stores delta [B, H, N] in `delta`, then computes the wanted gradients.
template <class Bias, bool kDrops>
void launch_gradients_mma(const char* op, const AttentionBackwardWork<bf16, Bias>& work, const bf16* y, float* delta,
                          Gradient dq, Gradient dk, Gradient dv, const Stream& stream) {
  for_mma_width<kOrdinary<Bias, kDrops>>(work.forward.dims.head_dim, [&](auto width) {
    constexpr int kWidth = decltype(width)::kWidth;
    using L = MmaTiling<kWidth>;
    const Launch how = launch_of_mma<L>(work.forward.dims, 2, 2, L::kBackwardWarps);
    launch(op, attention_query_gradient_mma<kWidth, Bias, kDrops>, how, stream, work, y, delta, dq.to.data<bf16>(),
           adds(dq));
    if (dk || dv)
      launch(op, attention_key_gradients_mma<kWidth, Bias, kDrops>, how, stream, work, dk.to.data<bf16>(),
             dv.to.data<bf16>(), adds(dk), adds(dv));
  });
}
template <class Bias>
void run_attention_backward_mma(const char* op, const AttentionBackwardWork<bf16, Bias>& work, const bf16* y,
                                float* delta, Gradient dq, Gradient dk, Gradient dv, const Stream& stream) {
  if (work.forward.keep)
    launch_gradients_mma<Bias, true>(op, work, y, delta, dq, dk, dv, stream);
  else
    launch_gradients_mma<Bias, false>(op, work, y, delta, dq, dk, dv, stream);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
