// What the attention kernels share, with or without tensor cores: the description of a call, a block's part of it, and
// the choice of a width.
#pragma once

#include <initializer_list>
#include <limits>

#include "cuda/attention_tile.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// A call. Bias is what is added to the scores: bias.of(image, head) gives a functor with the places of tokens and the
/// value between the places of a query and a key.
template <class T, class Bias>
struct AttentionWork {
  AttentionDims dims;
  Acc<T> scale, inverse_keep;
  const T *q, *k, *v;
  const std::uint8_t* keep;
  Bias bias;
  bool fours, eights;  // four values, or 16 bytes of bf16, may be read at once
};

template <class T, class Bias>
struct AttentionBackwardWork {
  AttentionWork<T, Bias> forward;
  const T* dy;
  const Acc<T>*lse, *delta;  // [B, H, N]
};

/// Adds nothing to the scores.
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
  /// Its first value in tensors with token stride `stride`.
  __device__ std::int64_t begin(const AttentionDims& d, std::int64_t stride) const {
    return image * d.tokens * stride + head * d.head_dim;
  }
  /// Its first row in [B, H, N].
  __device__ std::int64_t row(const AttentionDims& d) const { return (image * d.heads + head) * d.tokens; }
};
/// A block's part: the grid covers all heads, each cut into tiles of the block's rows.
struct BlockPart {
  HeadPart head;
  int first, rows;
};
__device__ inline BlockPart part_of_block(const AttentionDims& d, int rows) {
  const int block = static_cast<int>(blockIdx.x), tokens = static_cast<int>(d.tokens),
            heads = static_cast<int>(d.heads);
  const int tiles = (tokens + rows - 1) / rows, head = block / tiles, first = block % tiles * rows;
  return {{head / heads, head % heads}, first, tokens - first < rows ? tokens - first : rows};
}

/// Rows of tiles without a token use the last one: their results are finite and are discarded.
__device__ inline int token_or_last(int tokens, int token) { return token < tokens ? token : tokens - 1; }
constexpr int up_to(int multiple, int n) { return (n + multiple - 1) / multiple * multiple; }

/// Warps per block. Rows without a token have a cost. So does reading all other tokens once per block, about as much as
/// a warp.
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

inline bool aligned_to(std::size_t size, std::initializer_list<const void*> pointers) {
  bool all = true;
  for (const void* p : pointers) all = all && reinterpret_cast<std::uintptr_t>(p) % size == 0;
  return all;
}

inline constexpr std::int64_t kWidestMma = 128;  // heads that tensor cores take, in bf16
inline constexpr std::int64_t kWidestTile = 256;
/// Refuses heads that no tile holds.
inline void require_tile(const AttentionDims& d) {
  if (d.head_dim > kWidestTile)
    throw InputError(concat("--device cuda: attention takes heads of at most ", kWidestTile,
                            " values, but a head of this network has ", d.head_dim,
                            "; use more heads (num_heads), or --device cpu"));
}

/// `pointers`: all other memory that is read or written in several values at once; null ones do not count.
template <class T, class Bias>
AttentionWork<T, Bias> work_of(const AttentionDims& d, const AttentionInput& input, Bias bias,
                               std::initializer_list<const void*> pointers) {
  require_tile(d);
  using A = Acc<T>;
  const T *queries = input.q.data<T>(), *keys = input.k.data<T>(), *values = input.v.data<T>();
  const auto at_once = [&](std::int64_t count, std::size_t bytes) {
    return d.head_dim % count == 0 && d.stride % count == 0 && aligned_to(bytes, pointers) &&
           aligned_to(bytes, {queries, keys, values});
  };
  return {d,
          A(1 / std::sqrt(double(d.head_dim))),
          A(1 / (1 - input.rate)),
          queries,
          keys,
          values,
          input.keep.data<std::uint8_t>(),
          bias,
          at_once(4, kFourBytes<T>),
          at_once(8, 8 * sizeof(T))};
}

template <int kValues>
struct Width {
  static constexpr int kWidth = kValues;
};
/// Calls f(Width<W>{}) for the smallest W that holds a head's values, at most kWidestTile: for kernels without
/// tensor cores.
template <class T, class F>
void for_width(std::int64_t head_dim, F&& f) {
  if constexpr (!std::is_same_v<T, bf16>) {
    if (head_dim <= 32) return f(Width<32>{});
    if (head_dim <= 64) return f(Width<64>{});
    if (head_dim <= 128) return f(Width<128>{});
  }
  f(Width<256>{});
}
/// For kernels with tensor cores; at most kWidestMma. kFine: widths between powers of two have their own kernels.
template <bool kFine, class F>
void for_mma_width(std::int64_t head_dim, F&& f) {
  if constexpr (kFine) {
    if (head_dim <= 16) return f(Width<16>{});
    if (head_dim > 32 && head_dim <= 48) return f(Width<48>{});
    if (head_dim > 64 && head_dim <= 96) return f(Width<96>{});
  }
  if (head_dim <= 32) return f(Width<32>{});
  if (head_dim <= 64) return f(Width<64>{});
  f(Width<128>{});
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
