// What attention and attention inside windows share: the way forward, by tiles of queries with the softmax made as the
// keys come by, and what blocks of the kernels have in common.
#pragma once

#include <limits>

#include "cuda/attention_tile.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// Of a call. Bias says what is added to the scores: bias.of(image, head) gives a functor with places of tokens and
/// what is between a query's and a key's.
template <class T, class Bias>
struct AttentionWork {
  AttentionDims dims;
  Acc<T> scale, inverse_keep;
  const T *q, *k, *v;
  const std::uint8_t* keep;
  Bias bias;
  bool fours;  // all addresses and strides let four values be read at once
};

/// Nothing is added to the scores.
template <class A>
struct NoBias {
  struct Place {};
  __device__ NoBias of(int, int) const { return {}; }
  __device__ Place place(int) const { return {}; }
  __device__ A between(Place, Place) const { return 0; }
};

/// One head of one image.
struct HeadPart {
  int image, head;
  /// Its first value in tensors whose tokens are `stride` apart.
  __device__ std::int64_t begin(const AttentionDims& d, std::int64_t stride) const {
    return image * d.tokens * stride + head * d.head_dim;
  }
  /// Its first row in [B, H, N].
  __device__ std::int64_t row(const AttentionDims& d) const { return (image * d.heads + head) * d.tokens; }
};
/// What this block has: the grid is all heads, each cut into tiles of the block's rows.
struct BlockPart {
  HeadPart of;
  int first, rows;
};
__device__ inline BlockPart part_of_block(const AttentionDims& d, int rows) {
  const int block = static_cast<int>(blockIdx.x), tokens = static_cast<int>(d.tokens),
            heads = static_cast<int>(d.heads);
  const int tiles = (tokens + rows - 1) / rows, head = block / tiles, first = block % tiles * rows;
  return {{head / heads, head % heads}, first, tokens - first < rows ? tokens - first : rows};
}

/// Rows of tiles without a token count as the last one: what they give is finite and is left out.
__device__ inline int token_or_last(int tokens, int token) { return token < tokens ? token : tokens - 1; }
constexpr int up_to(int multiple, int n) { return (n + multiple - 1) / multiple * multiple; }

/// Most warps of a block, and blocks that a multiprocessor is to have at once, which bounds the registers of a thread.
template <class A, int kWidth>
inline constexpr int kForwardWarps = Tiling<A, kWidth>::most_warps(1, 2, 6);
inline constexpr int kForwardBlocks = 2;

/// y and lse of a tile of queries. The weights of the keys so far are kept relative to their largest score, and what
/// has been added up shrinks when a larger one comes (Milakov and Gimelshein 2018; Dao et al. 2022).
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
  const std::int64_t in = at.of.begin(d, d.stride), row = at.of.row(d);
  const auto bias = work.bias.of(at.of.image, at.of.head);
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
    __syncthreads();  // all warps are done with the tiles before
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
  T* out = y + at.of.begin(d, d.width()) + at.first * d.width();
  NORMLAB_UNROLL
  for (int i = 0; i < L::kRows; ++i) {
    const A sum = row_sum<L>(total[i]);
    if (lane.row_of(i) >= at.rows) continue;
    put_row(lane, sums[i], 1 / sum, dim, work.fours, false, out + lane.row_of(i) * d.width());
    if (lane.x == 0) lse[row + at.first + lane.row_of(i)] = top[i] + std::log(sum);
  }
}

/// Warps of a block. Rows without a token cost, and so does that a block reads all other tokens, about as much as a
/// warp does.
template <class L>
int warps_of_block(std::int64_t tokens, int most) {
  int best = 1;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int warps = 1; warps <= most; ++warps) {
    const std::int64_t cost = ceil_div(tokens, warps * L::kWarpRows) * (warps + 1);
    if (cost > least) continue;
    least = cost;
    best = warps;
  }
  return best;
}
template <class L>
Launch launch_of_heads(const AttentionDims& d, int own, int others, int most) {
  const int warps = warps_of_block<L>(d.tokens, most);
  return {d.batch * d.heads * ceil_div(d.tokens, warps * L::kWarpRows), warps * kWarp, L::bytes(own, others, warps)};
}

inline bool fours_at(std::size_t size, std::initializer_list<const void*> pointers) {
  bool all = true;
  for (const void* p : pointers) all = all && reinterpret_cast<std::uintptr_t>(p) % size == 0;
  return all;
}

/// `pointers`: whatever is read or written by values besides q, k and v; null ones do not count.
template <class T, class Bias>
AttentionWork<T, Bias> work_of(const AttentionDims& d, Tensor q, Tensor k, Tensor v, Tensor keep, double rate,
                               Bias bias, std::initializer_list<const void*> pointers) {
  using A = Acc<T>;
  const T *queries = q.data<T>(), *keys = k.data<T>(), *values = v.data<T>();
  const bool fours = d.head_dim % 4 == 0 && d.stride % 4 == 0 && fours_at(kFourBytes<T>, pointers) &&
                     fours_at(kFourBytes<T>, {queries, keys, values});
  return {d,
          A(1 / std::sqrt(double(d.head_dim))),
          A(1 / (1 - rate)),
          queries,
          keys,
          values,
          keep.data<std::uint8_t>(),
          bias,
          fours};
}

/// Calls f(Width<W>{}) for the least W that holds a head's values.
template <int kValues>
struct Width {
  static constexpr int kWidth = kValues;
};
template <class F>
void for_width(const char* op, std::int64_t head_dim, F&& f) {
  if (head_dim <= 32) return f(Width<32>{});
  if (head_dim <= 64) return f(Width<64>{});
  if (head_dim <= 128) return f(Width<128>{});
  if (head_dim <= 256) return f(Width<256>{});
  throw InputError(concat(op, ": heads of ", head_dim, " values; those of the GPU's kernels have at most 256"));
}

template <class T, class Bias>
void run_attention(const char* op, const AttentionWork<T, Bias>& work, Tensor y, Tensor lse, const Stream& stream) {
  for_width(op, work.dims.head_dim, [&](auto width) {
    constexpr int kWidth = decltype(width)::kWidth;
    using L = Tiling<Acc<T>, kWidth>;
    launch(op, attention_forward<T, kWidth, Bias>, launch_of_heads<L>(work.dims, 1, 2, kForwardWarps<Acc<T>, kWidth>),
           stream, work, y.data<T>(), lse.data<Acc<T>>());
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
