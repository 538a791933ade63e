// Attention in bf16 on tensor cores, for heads of up to 128 values, padded with zeros to a multiple of 16. A warp has
// 16 rows of a tile of queries and iterates over tiles of keys, each copied while the previous one is used. Scores,
// softmax and all sums stay in float registers. The weights are rounded to bf16 for their product with the values, as
// on the CPU.
#pragma once

#include "cuda/attention_work.cuh"
#include "cuda/tensor_core.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// Scores are kept as exponents of two, since 2^x is one instruction.
inline constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

/// The layout of tiles with rows of up to kWidth values in shared memory, and their distribution over lanes. A lane has
/// two rows of each 8 columns of a product, see tensor_core.cuh.
template <int kWidthOfTile>
struct MmaTiling {
  static constexpr int kWidth = kWidthOfTile, kPitch = kWidth + 8;
  static constexpr int kWarpRows = 16, kTileCols = kWidth <= 64 ? 64 : 32;
  static constexpr int kSteps = kWidth / 16;  // of a product over a head's values
  /// Whether the backward pass keeps a warp's own rows in registers. Keys have one more sum there.
  static constexpr bool keeps_own(bool keys) { return kWidth <= (keys ? 32 : 64); }
  static constexpr int kForwardWarps = kWidth <= 96 ? 8 : 6;  // per block
  static constexpr int kBackwardWarps = kWidth <= 96 ? 8 : 7;
  static constexpr int kForwardBlocks = 2;  // intended per multiprocessor: limits the registers
  static constexpr int kBackwardBlocks = kWidth <= 64 ? 2 : 1;
  using Result = FragmentC[kWidth / 8];  // [16, kWidth]

  /// Rows of a tile of the other kind, if it need not hold all of them.
  static constexpr int tile_rows(int tokens) { return tokens < kTileCols ? up_to(16, tokens) : kTileCols; }
  /// Shared memory: `own` tiles of each warp; two tiles of the other kind, twice if there are several, so that one
  /// pair is copied while the other is read; and `floats` values for each of their rows.
  static constexpr std::size_t bytes(int own, int floats, int tokens, int warps, int tile_rows) {
    const int rows = (tokens > tile_rows ? 2 : 1) * tile_rows;
    return sizeof(bf16) * static_cast<std::size_t>((own * warps * kWarpRows + 2 * rows) * kPitch) +
           sizeof(float) * static_cast<std::size_t>(floats * rows);
  }
};

/// How a head is cut. If a multiprocessor has room for the intended blocks with all rows of the other kind, each block
/// has a head, and its warps share the head's rows in passes. Otherwise a block has 16 rows for each warp and loads
/// tiles of the other kind in turn.
struct MmaPlan {
  int warps, tile_rows;
  std::size_t bytes;
  bool whole(int tokens) const { return tile_rows >= tokens; }
};
/// `own`, `floats`: of MmaTiling::bytes; `most` warps per block, `blocks` per multiprocessor.
template <class L>
MmaPlan plan_of_mma(int tokens, int own, int floats, int most, int blocks) {
  const int groups = up_to(L::kWarpRows, tokens) / L::kWarpRows, passes = (groups + most - 1) / most;
  MmaPlan plan{passes > 0 ? (groups + passes - 1) / passes : 1, groups * L::kWarpRows, 0};
  // Seven warps would give one of a multiprocessor's four schedulers half as much work as the others.
  if (passes > 1 && plan.warps == 7 && most > 7) plan.warps = 8;
  plan.bytes = L::bytes(own, floats, tokens, plan.warps, plan.tile_rows);
  constexpr std::size_t kReserved = 1024;  // of each block, by CUDA
  if (static_cast<std::size_t>(blocks) * (plan.bytes + kReserved) <= device_info().shared_per_block + kReserved)
    return plan;
  plan.warps = warps_of_block<L>(tokens, most);
  plan.tile_rows = L::tile_rows(tokens);
  plan.bytes = L::bytes(own, floats, tokens, plan.warps, plan.tile_rows);
  return plan;
}
inline Launch launch_of_mma(const AttentionDims& d, const MmaPlan& plan, int warp_rows) {
  const std::int64_t tiles = plan.whole(static_cast<int>(d.tokens)) ? 1 : ceil_div(d.tokens, plan.warps * warp_rows);
  return {d.batch * d.heads * tiles, plan.warps * kWarp, plan.bytes};
}

/// A lane's warp, and its place in C fragments: its values 2 i + e are in row row_of(i) of the warp and column
/// col_of(n, e) of the n-th group of eight.
template <class L>
struct MmaLane {
  int group = static_cast<int>(threadIdx.x) % kWarp / 4, pair = static_cast<int>(threadIdx.x) % 4 * 2;
  // From the first lane, so that the compiler knows that a warp's branches on it do not diverge.
  int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarp, 0);
  __device__ int row_of(int i) const { return group + 8 * i; }
  __device__ int col_of(int n, int e) const { return 8 * n + pair + e; }
};
__device__ inline int block_warps() { return static_cast<int>(blockDim.x) / kWarp; }
template <class L>
__device__ BlockPart part_of_mma_block(const AttentionDims& d, int tile_rows) {
  const auto tokens = static_cast<int>(d.tokens);
  return part_of_block(d, tile_rows >= tokens ? tokens : block_warps() * L::kWarpRows);
}

/// A thread's part of copying rows: eight values of every step-th row.
template <class L>
struct CopyLane {
  static constexpr int kEights = L::kWidth / 8;
  int row, col, step;
  bool idle;
  __device__ __forceinline__ CopyLane(int thread, int threads)
      : row(thread / kEights),
        col(thread % kEights * 8),
        step(threads / kEights),
        idle(thread >= threads / kEights * kEights) {}
  /// Its first value of rows `stride` values apart.
  template <class T>
  __device__ __forceinline__ T* in(T* x, int stride) const {
    return x + (row * stride + col);
  }
};

/// tile [fill, kWidth] = x [rows, dim] with row stride `stride`, zeros beyond; complete once the copies are done.
/// x: at.in() of the first row. All threads of the block must call this.
template <class L>
__device__ __forceinline__ void fetch_tile(const CopyLane<L>& at, const bf16* x, int stride, int rows, int dim,
                                           bool eights, int fill, bf16* tile, AsyncCopies& copies) {
  if (at.idle) return;
  tile = at.in(tile, L::kPitch);
  const int x_step = at.step * stride, tile_step = at.step * L::kPitch;
  if (eights) {
    const int there = at.col < dim ? rows : 0;
    NORMLAB_NO_UNROLL
    for (int r = at.row; r < fill; r += at.step, x += x_step, tile += tile_step) copies.copy<16>(tile, x, r < there);
    return;
  }
  NORMLAB_NO_UNROLL
  for (int r = at.row; r < fill; r += at.step, x += x_step, tile += tile_step) {
    NORMLAB_NO_UNROLL
    for (int e = 0; e < 8; ++e) tile[e] = r < rows && at.col + e < dim ? x[e] : bf16(0.0f);
  }
}

/// A warp's 16 rows as the left side of products: kept in registers, or read from shared memory each time.
template <class L, bool kKeeps>
class OwnRows {
 public:
  __device__ __forceinline__ void take(const bf16* rows) {
    rows_ = rows;
    if constexpr (kKeeps) {
      NORMLAB_UNROLL
      for (int k = 0; k < L::kSteps; ++k) kept_[k] = load_a(rows + 16 * k, L::kPitch);
    }
  }
  /// to[n], each two of [16, 8], += these rows times 16 rows of a tile, transposed. Covers kTiles groups of 16 rows,
  /// but none from row `rows` on.
  template <int kTiles>
  __device__ __forceinline__ void dot(const bf16* other, int rows, FragmentC* to) const {
    NORMLAB_UNROLL
    for (int k = 0; k < L::kSteps; ++k) {
      FragmentA a;
      if constexpr (kKeeps)
        a = kept_[k];
      else
        a = load_a(rows_ + 16 * k, L::kPitch);
      NORMLAB_UNROLL
      for (int n = 0; n < kTiles; ++n) {
        if (16 * n >= rows) break;
        FragmentB b[2];
        load_b(other + 16 * (n * L::kPitch + k), L::kPitch, b);
        mma(to[2 * n], a, b[0], to[2 * n]);
        mma(to[2 * n + 1], a, b[1], to[2 * n + 1]);
      }
    }
  }

 private:
  FragmentA kept_[kKeeps ? L::kSteps : 1];
  const bf16* rows_;
};

/// Rounds 16 columns of a result as the left side of the next product; the lanes already hold the right values.
__device__ __forceinline__ FragmentA rounded(const FragmentC& left, const FragmentC& right) {
  return {{pack(left.x[0], left.x[1]), pack(left.x[2], left.x[3]), pack(right.x[0], right.x[1]),
           pack(right.x[2], right.x[3])}};
}
/// sums += weights [16, 16] times 16 rows of a tile.
template <class L>
__device__ __forceinline__ void add_weighted(const FragmentA& weights, const bf16* rows, typename L::Result& sums) {
  NORMLAB_UNROLL
  for (int k = 0; k < L::kSteps; ++k) {
    FragmentB b[2];
    load_b_trans(rows + 16 * k, L::kPitch, b);
    mma(sums[2 * k], weights, b[0], sums[2 * k]);
    mma(sums[2 * k + 1], weights, b[1], sums[2 * k + 1]);
  }
}

/// Copies `rows` rows of a warp between a tile and [.., dim] in global memory.
template <class L, bool kToTile>
__device__ __forceinline__ void move_rows(bf16* tile, bf16* x, int stride, int rows, int dim, bool eights) {
  const CopyLane<L> at(static_cast<int>(threadIdx.x) % kWarp, kWarp);
  if (at.idle || at.col >= dim) return;
  x = at.in(x, stride);
  tile = at.in(tile, L::kPitch);
  const int end = rows < L::kWarpRows ? rows : L::kWarpRows;
  NORMLAB_NO_UNROLL
  for (int r = at.row; r < end; r += at.step, x += at.step * stride, tile += at.step * L::kPitch) {
    bf16 *there = kToTile ? tile : x, *here = kToTile ? x : tile;
    if (eights) {
      copy_eight(here, there);
    } else {
      NORMLAB_NO_UNROLL
      for (int e = 0; e < 8 && at.col + e < dim; ++e) there[e] = here[e];
    }
  }
}
/// to (+)= factor[i] times row i of each lane in `sums`. Goes through the warp's own rows in shared memory, which are
/// no longer needed, so that global memory is written in pieces of 16 bytes.
template <class L>
__device__ __forceinline__ void put_rows(const MmaLane<L>& lane, const typename L::Result& sums,
                                         const float (&factor)[2], bf16* own, bf16* to, int stride, int rows, int dim,
                                         bool eights, bool add) {
  __syncwarp();  // all lanes have read the old contents
  if (add) {
    move_rows<L, true>(own, to, stride, rows, dim, eights);
    __syncwarp();
  }
  NORMLAB_UNROLL
  for (int n = 0; n < L::kWidth / 8; ++n)
    for (int i = 0; i < 2; ++i) {
      bf16* at = own + (lane.group + 8 * i) * L::kPitch + lane.col_of(n, 0);
      float low = factor[i] * sums[n].x[2 * i], high = factor[i] * sums[n].x[2 * i + 1];
      if (add) {
        low += float(at[0]);
        high += float(at[1]);
      }
      write_pair(at, pack(low, high));
    }
  __syncwarp();
  move_rows<L, false>(own, to, stride, rows, dim, eights);
}

/// Over the four lanes with the same rows; the same bits in each.
__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}
__device__ __forceinline__ float quad_max(float value) {
  value = std::fmax(value, __shfl_xor_sync(kAllLanes, value, 1));
  return std::fmax(value, __shfl_xor_sync(kAllLanes, value, 2));
}

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

/// y and lse of a tile of queries. Weights so far are kept relative to the largest score, and sums are scaled down when
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
  const std::int64_t in = at.of.begin(d, d.stride), row = at.of.row(d);
  const auto bias = work.bias.of(at.of.image, at.of.head);
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
    put_rows(lane, softmax.sums, inverse, own, y + at.of.begin(d, d.width()) + own_first * d.width(),
             static_cast<int>(d.width()), rows, dim, work.eights, false);
  }
}

/// Dropout has kernels of its own, since its inputs would take registers of the others. Kernels without bias and
/// dropout exist for more widths than the others.
template <class Bias, bool kDrops>
inline constexpr bool kOrdinary = std::is_same_v<Bias, NoBias<float>> && !kDrops;

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
