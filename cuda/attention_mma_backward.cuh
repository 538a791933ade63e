// The backward pass of attention in bf16 on tensor cores, by the formulas of attention_backward.cuh. P M and dS are
// rounded to bf16 for their products, as on the CPU; everything else is float. Blocks that own queries run first and
// also compute delta, since they read dy anyway; blocks that own keys follow.
#pragma once

#include "cuda/attention_mma_tile.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

struct alignas(8) FloatPair {
  float x[2];
};

/// P M and dS between a warp's own 16 queries or keys and the block's tiles of the other kind. kWhole: the warps own the
/// keys of a whole head, whose queries are one tile.
template <int kWidth, class Bias, bool kOwnsKeys, bool kDrops, bool kWhole = false>
class MmaBackwardTile {
 public:
  using L = MmaTiling<kWidth>;
  const MmaLane<L> lane;

  __device__ __forceinline__ MmaBackwardTile(const AttentionBackwardWork<bf16, Bias>& work, int tile_rows, bf16* memory)
      : work_(work),
        dims_(work.forward.dims),
        tokens_(static_cast<int>(dims_.tokens)),
        dim_(static_cast<int>(dims_.head_dim)),
        tile_rows_(tile_rows),
        of_block_(static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)),
        of_warp_(static_cast<int>(threadIdx.x) % kWarp, kWarp),
        own_(memory + lane.warp * 2 * kOwnValues),
        tiles_(memory + block_warps() * 2 * kOwnValues) {}

  /// Starts to load the warp's first rows and the other kind's tokens from `first` on. All threads must call this and
  /// arrive(), after which both are there.
  __device__ __forceinline__ void start(const BlockPart& part, int first) {
    of_ = part.head;
    end_ = part.first + part.rows;
    own_first_ = part.first + lane.warp * L::kWarpRows;
    row_ = part.head.row(dims_);
    bias_ = work_.forward.bias.of(part.head.image, part.head.head);
    fetch_own();
    place<!kOwnsKeys>(of_block_, first, next_, next_up_);
    fetch(first, 0);
  }
  __device__ __forceinline__ void arrive() {
    copies_.wait();
    __syncthreads();
    take_own();
  }
  /// Starts to load the warp's rows of the next pass, if there are any; arrive_own() completes it.
  __device__ __forceinline__ bool next() {
    own_first_ += block_warps() * L::kWarpRows;
    if (idle()) return false;
    __syncwarp();  // all lanes have read the old rows
    fetch_own();
    return true;
  }
  __device__ __forceinline__ void arrive_own() {
    copies_.wait();
    __syncwarp();
    take_own();
  }
  /// A lane's part of y's rows that belong to the own queries.
  struct Output {
    static constexpr int kPieces = (kWidth + 31) / 32;
    alignas(16) bf16 x[2][kPieces][8];
  };
  /// Loads them; needs no other data, so that it overlaps with the tiles' copies.
  __device__ __forceinline__ Output read_output(const bf16* y) const {
    Output output;
    y += of_.begin(dims_, dims_.width());
    NORMLAB_UNROLL
    for (int i = 0; i < 2; ++i)
      for (int piece = 0; piece < Output::kPieces; ++piece) {
        const int token = own_first_ + lane.row_of(i), c = 32 * piece + lane.pair * 4;
        const bf16* from = y + token * dims_.width() + c;
        bf16* to = output.x[i][piece];
        const bool there = token < end_ && c < dim_;
        if (there && work_.forward.eights) {
          copy_eight(from, to);
        } else {
          NORMLAB_UNROLL
          for (int e = 0; e < 8; ++e) to[e] = there && c + e < dim_ ? from[e] : bf16(0.0f);
        }
      }
    return output;
  }
  /// Computes delta of the own queries, or of those with the own keys' numbers, and stores it in memory; read_delta()
  /// reads it from there. kWhole: also where scores() looks, for all warps after a barrier.
  __device__ __forceinline__ void make_delta(const Output& output, float* delta) {
    const bf16* const rows = kWhole ? tiles_ + (tile_rows_ + own_first_) * L::kPitch : own_ + kOwnValues;
    NORMLAB_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int token = own_first_ + lane.row_of(i);
      const bf16* up = rows + lane.row_of(i) * L::kPitch + lane.pair * 4;
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
      if (lane.pair == 0 && token < end_) delta[row_ + token] = delta_[i];
      if (kWhole && lane.pair == 0) terms_of(0)->x[tile_rows_ + token] = delta_[i];
    }
  }
  __device__ __forceinline__ void read_delta() {
    NORMLAB_UNROLL
    for (int i = 0; i < 2; ++i) delta_[i] = work_.delta[row_ + token_or_last(tokens_, own_first_ + lane.row_of(i))];
  }
  /// The warp has no row.
  __device__ __forceinline__ bool idle() const { return own_first_ >= end_; }
  __device__ __forceinline__ int tokens() const { return tokens_; }

  /// Calls f(column, P M, dS, 16 rows of the other tile, the same rows of its dy or v) for every 16 tokens of the
  /// other kind, in their order.
  template <class F>
  __device__ __forceinline__ void against_all(F&& f) {
    for (int first = 0, stage = 0; first < tokens_; first += tile_rows_, stage ^= 1) {
      const bool more = first + tile_rows_ < tokens_;
      if (more) fetch(first + tile_rows_, stage ^ 1);
      if (!idle()) against<false>(first, stage, f);
      if (!more) break;
      copies_.wait();
      __syncthreads();  // the next tiles are there, and no warp reads these
    }
  }
  /// The same for the tile of tokens first .. only, which must be loaded in `stage`. kUnrolled: f is called with
  /// constant columns, up to kTileCols.
  template <bool kUnrolled, class F>
  __device__ __forceinline__ void against(int first, int stage, F&& f) {
    const bf16* rows = tiles_of(stage);
    const FloatPair* terms = terms_of(stage) + lane.pair / 2;
    const int cols = tokens_ - first < tile_rows_ ? tokens_ - first : tile_rows_;
    const auto sixteens = [&](auto count, int c) {
      constexpr int kCount = decltype(count)::value;
      FragmentC p[kCount][2], ds[kCount][2];
      scores(first, c, cols, rows, terms, p, ds);
      NORMLAB_UNROLL
      for (int g = 0; g < kCount; ++g, rows += 16 * L::kPitch)
        f(c + 16 * g, p[g], ds[g], rows, rows + tile_rows_ * L::kPitch);
      terms += kCount * 16 / 2;
    };
    using One = std::integral_constant<int, 1>;
    using Two = std::integral_constant<int, 2>;
    if constexpr (kUnrolled) {
      NORMLAB_UNROLL
      for (int c = 0; c < L::kTileCols; c += 16)
        if (c < cols) sixteens(One{}, c);
    } else {
      int c = 0;
      if constexpr (kOwnsKeys) {  // its loads take long to arrive, and the queries' kernel lacks registers for this
        NORMLAB_NO_UNROLL
        for (; c + 32 <= cols; c += 32) sixteens(Two{}, c);
      }
      NORMLAB_NO_UNROLL
      for (; c < cols; c += 16) sixteens(One{}, c);
    }
  }

  /// kWhole: dS [keys, queries] of the head, its pitch, and the keys of the g-th warp.
  __device__ __forceinline__ bf16* gradients() const { return reinterpret_cast<bf16*>(terms_of(0) + tile_rows_); }
  __device__ __forceinline__ int gradients_pitch() const { return tile_rows_ + 8; }
  __device__ __forceinline__ const bf16* keys_of(int g) const { return own_ + (g - lane.warp) * 2 * kOwnValues; }
  /// to [kWidth] = the sums over the own tokens of what put() stores of such a result.
  __device__ __forceinline__ void sum_rows(const typename L::Result& result, float factor, float* to) const {
    NORMLAB_UNROLL
    for (int n = 0; n < kWidth / 8; ++n)
      for (int e = 0; e < 2; ++e) {
        float sum = 0;
        for (int i = 0; i < 2; ++i)
          if (own_first_ + lane.row_of(i) < end_) sum += float(bf16(factor * result[n].x[2 * i + e]));
        for (int step = 4; step < kWarp; step *= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
        if (lane.group == 0) to[lane.col_of(n, e)] = sum;
      }
  }
  /// kWhole: room for those of each warp, [warps, 3, kWidth], behind dS.
  __device__ __forceinline__ float* row_sums() const {
    return reinterpret_cast<float*>(gradients() + tile_rows_ * gradients_pitch());
  }
  /// Stores the own keys' part of dS for 16 queries from `column` on, zeros in rows without a key.
  __device__ __forceinline__ void write_gradients(int column, const FragmentC (&ds)[2]) const {
    NORMLAB_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int key = own_first_ + lane.row_of(i);
      bf16* const row = gradients() + key * gradients_pitch() + column;
      NORMLAB_UNROLL
      for (int n = 0; n < 2; ++n)
        write_pair(row + lane.col_of(n, 0), key < end_ ? pack(ds[n].x[2 * i], ds[n].x[2 * i + 1]) : 0u);
    }
  }

  /// to [B, N, H d], with `stride` from token to token, (+)= factor times the results of the own tokens. `which` is the
  /// own tile that is no longer needed.
  __device__ __forceinline__ void put(const typename L::Result& result, float factor, int which, bf16* to, bool add) {
    put_rows(lane, result, {factor, factor}, own_ + which * kOwnValues,
             to + of_.begin(dims_, dims_.stride) + own_first_ * dims_.stride, static_cast<int>(dims_.stride),
             end_ - own_first_, dim_, work_.forward.eights, add);
  }

 private:
  using OfHead = decltype(std::declval<Bias>().of(0, 0));
  using Place = decltype(std::declval<OfHead>().place(0));
  static constexpr int kOwnValues = L::kWarpRows * L::kPitch;

  /// The two tiles of a stage.
  __device__ __forceinline__ bf16* tiles_of(int stage) const { return tiles_ + stage * 2 * tile_rows_ * L::kPitch; }
  /// lse and delta of its queries.
  __device__ __forceinline__ FloatPair* terms_of(int stage) const {
    const int stages = tokens_ > tile_rows_ ? 2 : 1;
    return reinterpret_cast<FloatPair*>(tiles_ + stages * 2 * tile_rows_ * L::kPitch) + stage * tile_rows_;
  }
  /// Where a lane copies keys or queries and what belongs to them, v or dy, from token `first` on.
  template <bool kKeys>
  __device__ __forceinline__ void place(const CopyLane<L>& at, int first, const bf16*& rows, const bf16*& up) const {
    const AttentionWork<bf16, Bias>& forward = work_.forward;
    const std::int64_t up_stride = kKeys ? dims_.stride : dims_.width();
    rows = at.in((kKeys ? forward.k : forward.q) + of_.begin(dims_, dims_.stride) + first * dims_.stride,
                 static_cast<int>(dims_.stride));
    up = at.in((kKeys ? forward.v : work_.dy) + of_.begin(dims_, up_stride) + first * up_stride,
               static_cast<int>(up_stride));
  }
  template <bool kKeys>
  __device__ __forceinline__ void load(const CopyLane<L>& at, const bf16* rows, const bf16* up, int count, int fill,
                                       bf16* tile, bf16* up_tile) {
    const AttentionWork<bf16, Bias>& forward = work_.forward;
    const auto stride = static_cast<int>(dims_.stride), up_stride = kKeys ? stride : static_cast<int>(dims_.width());
    fetch_tile(at, rows, stride, count, dim_, forward.eights, fill, tile, copies_);
    fetch_tile(at, up, up_stride, count, dim_, forward.eights, fill, up_tile, copies_);
  }
  __device__ __forceinline__ void fetch_own() {
    if (idle()) return;
    const bf16 *rows, *up;
    place<kOwnsKeys>(of_warp_, own_first_, rows, up);
    load<kOwnsKeys>(of_warp_, rows, up, end_ - own_first_, L::kWarpRows, own_, own_ + kOwnValues);
    if constexpr (!kOwnsKeys) {
      NORMLAB_UNROLL
      for (int i = 0; i < 2; ++i) lse_[i] = work_.lse[row_ + token_or_last(tokens_, own_first_ + lane.row_of(i))];
    }
  }
  __device__ __forceinline__ void take_own() {
    if (idle()) return;
    own_rows_.take(own_);
    own_up_.take(own_ + kOwnValues);
    NORMLAB_UNROLL
    for (int i = 0; i < 2; ++i) {
      own_place_[i] = bias_.place(token_or_last(tokens_, own_first_ + lane.row_of(i)));
      if constexpr (!kOwnsKeys) lse_[i] *= kLog2E;
    }
  }
  __device__ __forceinline__ void fetch(int first, int stage) {
    bf16* other = tiles_of(stage);
    const int cols = tokens_ - first < tile_rows_ ? tokens_ - first : tile_rows_, fill = up_to(16, cols);
    load<!kOwnsKeys>(of_block_, next_, next_up_, cols, fill, other, other + tile_rows_ * L::kPitch);
    next_ += tile_rows_ * static_cast<int>(dims_.stride);
    next_up_ += tile_rows_ * static_cast<int>(kOwnsKeys ? dims_.width() : dims_.stride);
    if constexpr (kOwnsKeys) {
      float* to = terms_of(stage)->x;
      for (int r = static_cast<int>(threadIdx.x); r < fill; r += static_cast<int>(blockDim.x)) {
        const std::int64_t query = row_ + token_or_last(tokens_, first + r);
        copies_.template copy<4>(to + r, work_.lse + query, true);
        if constexpr (!kWhole) copies_.template copy<4>(to + tile_rows_ + r, work_.delta + query, true);
      }
    }
  }

  /// P M and dS of kCount times 16 columns from `c` on, with zeros in columns without a token.
  template <int kCount>
  __device__ __forceinline__ void scores(int first, int c, int cols, const bf16* other, const FloatPair* terms,
                                         FragmentC (&p_of)[kCount][2], FragmentC (&ds_of)[kCount][2]) const {
    const AttentionWork<bf16, Bias>& forward = work_.forward;
    FragmentC *const p = p_of[0], *const ds = ds_of[0];
    NORMLAB_UNROLL
    for (int n = 0; n < 2 * kCount; ++n) p[n] = ds[n] = {};
    own_rows_.template dot<kCount>(other, 16 * kCount, p);
    own_up_.template dot<kCount>(other + tile_rows_ * L::kPitch, 16 * kCount, ds);
    const float scale = forward.scale * kLog2E;
    NORMLAB_UNROLL
    for (int n = 0; n < 2 * kCount; ++n) {
      FloatPair lse, delta;  // of the other tile's queries
      if constexpr (kOwnsKeys) {
        lse = terms[8 / 2 * n];
        delta = terms[tile_rows_ / 2 + 8 / 2 * n];
      }
      for (int e = 0; e < 2; ++e) {
        const int col = c + lane.col_of(n, e);
        const bool there = kCount > 1 || col < cols;  // only the last 16 may lack some
        const Place place = bias_.place(token_or_last(tokens_, first + col));
        NORMLAB_UNROLL
        for (int i = 0; i < 2; ++i) {
          const float plus = kOwnsKeys ? bias_.between(place, own_place_[i]) : bias_.between(own_place_[i], place);
          const float of_lse = kOwnsKeys ? kLog2E * lse.x[e] : lse_[i], of_delta = kOwnsKeys ? delta.x[e] : delta_[i];
          float &weight = p[n].x[2 * i + e], &gradient = ds[n].x[2 * i + e];
          weight = there ? exp2_of(scale * weight + (kLog2E * plus - of_lse)) : 0.0f;
          float kept = 1;
          if (const int own_token = own_first_ + lane.row_of(i); kDrops && there && own_token < end_) {
            const int other_token = first + col;
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
  const int tokens_, dim_, tile_rows_;
  const CopyLane<L> of_block_, of_warp_;
  bf16 *const own_, *const tiles_;
  const bf16 *next_, *next_up_;  // the lane's values of the next tiles of the other kind
  AsyncCopies copies_;
  HeadPart of_;
  int own_first_, end_;  // the warp's first row, and the end of the block's rows
  std::int64_t row_;
  OfHead bias_;
  OwnRows<L, L::keeps_own(kOwnsKeys)> own_rows_;
  OwnRows<L, L::keeps_own(kOwnsKeys)> own_up_;
  Place own_place_[2];
  float lse_[2], delta_[2];  // of own queries
};

/// delta and, unless null, dq of a block's queries.
template <int kWidth, class Bias, bool kDrops>
__global__ void __launch_bounds__(MmaTiling<kWidth>::kBackwardWarps* kWarp, MmaTiling<kWidth>::kBackwardBlocks)
    attention_query_gradient_mma(AttentionBackwardWork<bf16, Bias> work, int tile_rows, const bf16* y, float* delta,
                                 bf16* dq, bool add) {
  using L = MmaTiling<kWidth>;
  NORMLAB_DYNAMIC_SHARED(bf16, memory);
  MmaBackwardTile<kWidth, Bias, false, kDrops> tile(work, tile_rows, memory);
  tile.start(part_of_mma_block<L>(work.forward.dims, tile_rows), 0);
  auto output = tile.read_output(y);
  tile.arrive();
  for (;;) {
    if (!tile.idle()) tile.make_delta(output, delta);
    if (dq) {
      typename L::Result sums = {};
      tile.against_all([&](int, const FragmentC(&)[2], const FragmentC(&ds)[2], const bf16* keys, const bf16*) {
        add_weighted<L>(rounded(ds[0], ds[1]), keys, sums);
      });
      if (!tile.idle()) tile.put(sums, work.forward.scale, 0, dq, add);
    }
    if (!tile.next()) return;
    output = tile.read_output(y);
    tile.arrive_own();
  }
}

/// dk and dv of a block's keys; one that is null is not stored.
template <int kWidth, class Bias, bool kDrops>
__global__ void __launch_bounds__(MmaTiling<kWidth>::kBackwardWarps* kWarp, MmaTiling<kWidth>::kBackwardBlocks)
    attention_key_gradients_mma(AttentionBackwardWork<bf16, Bias> work, int tile_rows, bf16* dk, bf16* dv, bool add_k,
                                bool add_v) {
  using L = MmaTiling<kWidth>;
  NORMLAB_DYNAMIC_SHARED(bf16, memory);
  MmaBackwardTile<kWidth, Bias, true, kDrops> tile(work, tile_rows, memory);
  tile.start(part_of_mma_block<L>(work.forward.dims, tile_rows), 0);
  tile.arrive();
  for (;;) {
    typename L::Result of_keys = {}, of_values = {};
    tile.against_all([&](int, const FragmentC(&p)[2], const FragmentC(&ds)[2], const bf16* queries, const bf16* up) {
      add_weighted<L>(rounded(p[0], p[1]), up, of_values);
      add_weighted<L>(rounded(ds[0], ds[1]), queries, of_keys);
    });
    if (tile.idle()) return;
    if (dk) tile.put(of_keys, work.forward.scale, 0, dk, add_k);
    if (dv) tile.put(of_values, 1, 1, dv, add_v);
    if (!tile.next()) return;
    tile.arrive_own();
  }
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
