// What the kernels of attention on tensor cores share: the layout of tiles and the cut of a head, copies between global
// and shared memory, and products of a warp's 16 rows.
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
  if (blocks_fit(blocks, plan.bytes)) return plan;
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
/// x: at.in() of the first row. All threads among which `at` divides the rows must call this.
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

/// Dropout has kernels of its own, since its inputs would take registers of the others. Kernels without bias and
/// dropout exist for more widths than the others.
template <class Bias, bool kDrops>
inline constexpr bool kOrdinary = std::is_same_v<Bias, NoBias<float>> && !kDrops;

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
