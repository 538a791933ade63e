// Attention inside windows (Liu et al. 2021, section 3.2): the kernels of attention with a bias by relative position
// and the mask of the cyclic shift, and the gradient of the bias.
#include "cuda/attention.cuh"
#include "cuda/attention_backward.cuh"
#include "cuda/column_sums.cuh"
#include "cuda/cuda_backend.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// A token's place in a window as one number, offset * 4 + region. Differences of offsets count rows of the table;
/// regions differ between tokens that only the shift has made neighbours.
using PlaceInWindow = int;

template <class A>
struct WindowBias {
  const A* table;  // [offsets, heads]
  int heads, window, shift, down, across;
  static constexpr A kMask = -100;

  struct OfHead {
    const A* table;
    int heads, window, turned_y, turned_x;  // tokens from there on came round

    __device__ PlaceInWindow place(int token) const {
      const int y = token / window, x = token % window;
      return (y * (2 * window - 1) + x) * 4 + (y >= turned_y ? 2 : 0) + (x >= turned_x ? 1 : 0);
    }
    __device__ A between(PlaceInWindow query, PlaceInWindow key) const {
      const int row = query / 4 - key / 4 + 2 * window * (window - 1);
      return table[std::int64_t{row} * heads] + (query % 4 != key % 4 ? kMask : A(0));
    }
  };
  /// Windows of the last row and of the last column hold the tokens that came round.
  __device__ OfHead of(int image, int head) const {
    const int in_image = image % (down * across);
    const bool last_row = shift > 0 && in_image / across == down - 1,
               last_col = shift > 0 && in_image % across == across - 1;
    return {table + head, heads, window, last_row ? window - shift : window, last_col ? window - shift : window};
  }
};
template <class A>
WindowBias<A> bias_of(const WindowDims& d, std::int64_t heads, Tensor table) {
  return {table.data<A>(),           static_cast<int>(heads),    static_cast<int>(d.window),
          static_cast<int>(d.shift), static_cast<int>(d.down()), static_cast<int>(d.across())};
}

/// Windows that one block adds up: a function of the shape alone, so that the order of the sum is.
std::int64_t windows_of_chunk(std::int64_t windows) {
  constexpr std::int64_t kMostChunks = 128;
  return ceil_div(windows, kMostChunks);
}

/// terms [chunks, tiles of queries, tiles of keys, offsets, heads]: dS summed over the windows of a chunk and over
/// equal offsets between a tile of queries and one of keys. A block has a head, a chunk and two tiles, its threads the
/// pairs of tokens while it goes through the windows, and the offsets in the end.
template <class T, int kWidth>
__global__ void __launch_bounds__(kBackwardWarps<Acc<T>, kWidth>* kWarp, kBackwardBlocks<Acc<T>, kWidth>)
    bias_terms(AttentionBackwardWork<T, WindowBias<Acc<T>>> work, std::int64_t chunk_windows, Acc<T>* terms) {
  using A = Acc<T>;
  using L = Tiling<A, kWidth>;
  NORMLAB_DYNAMIC_SHARED(A, memory);
  const AttentionDims& d = work.forward.dims;
  const int window = work.forward.bias.window, rows = block_rows<L>(), tokens = static_cast<int>(d.tokens),
            heads = static_cast<int>(d.heads), block = static_cast<int>(blockIdx.x);
  const int down = (tokens + rows - 1) / rows, across = (tokens + L::kTileCols - 1) / L::kTileCols;
  const int head = block % heads, pair = block / heads % (down * across), chunk = block / heads / (down * across);
  const int first = pair / across * rows, first_key = pair % across * L::kTileCols;
  const int own_rows = tokens - first < rows ? tokens - first : rows;
  BackwardTile<T, kWidth, WindowBias<A>, false> tile(work, memory);
  typename L::Scores total = {};
  const std::int64_t begin = chunk * chunk_windows,
                     end = begin + chunk_windows < d.batch ? begin + chunk_windows : d.batch;
  for (auto w = static_cast<int>(begin); w < end; ++w) {
    __syncthreads();  // all warps are done with the window before
    tile.take({{w, head}, first, own_rows});
    tile.against(first_key);
    if (tile.idle()) continue;
    typename L::Scores p, ds;
    tile.scores(p, ds);
    NORMLAB_UNROLL
    for (int i = 0; i < L::kRows; ++i)
      for (int j = 0; j < L::kCols; ++j) total[i][j] += ds[i][j];
  }
  if (!tile.idle()) tile.write(total);
  __syncthreads();
  const int span = 2 * window - 1, cols = tile.cols();
  terms += (std::int64_t{chunk} * down * across + pair) * span * span * heads + head;
  for (int offset = static_cast<int>(threadIdx.x); offset < span * span; offset += static_cast<int>(blockDim.x)) {
    const int dy = offset / span - (window - 1), dx = offset % span - (window - 1);
    A sum = 0;
    for (int r = 0; r < own_rows; ++r) {
      const int token = first + r, y = token / window - dy, x = token % window - dx;
      const int col = y * window + x - first_key;
      if (y >= 0 && y < window && x >= 0 && x < window && col >= 0 && col < cols)
        sum += tile.weights()[r * L::kWeightPitch + col];
    }
    terms[std::int64_t{offset} * heads] = sum;
  }
}

template <class A>
struct BiasTerms {
  std::int64_t cols;
  const A* terms;
  __device__ void operator()(std::int64_t r, std::int64_t c, A (&values)[1]) const { values[0] = terms[r * cols + c]; }
};

}  // namespace

void CudaBackend::window_attention(AttentionDims d, WindowDims windows, Tensor q, Tensor k, Tensor v, Tensor table,
                                   Tensor keep, double rate, Tensor y, Tensor lse) {
  for_type("window_attention", q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto work = work_of<T>(d, q, k, v, keep, rate, bias_of<Acc<T>>(windows, d.heads, table), {y.raw()});
    run_attention("window_attention", work, y, lse, stream_);
  });
}

void CudaBackend::window_attention_backward(AttentionDims d, WindowDims windows, Tensor dy, Tensor q, Tensor k,
                                            Tensor v, Tensor table, Tensor keep, double rate, Tensor y, Tensor lse,
                                            Gradient dq, Gradient dk, Gradient dv, Gradient dtable) {
  constexpr const char* kOp = "window_attention_backward";
  for_type(kOp, q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    for_width(kOp, d.head_dim, [&](auto width) {
      constexpr int kWidth = decltype(width)::kWidth;
      using L = Tiling<A, kWidth>;
      const auto forward = work_of<T>(d, q, k, v, keep, rate, bias_of<A>(windows, d.heads, table),
                                      {dy.raw(), dq.to.raw(), dk.to.raw(), dv.to.raw()});
      const int warps = warps_of_block<L>(d.tokens, kBackwardWarps<A, kWidth>);
      const std::int64_t chunk = windows_of_chunk(d.batch), cols = windows.offsets() * d.heads,
                         rows = d.batch > 0 ? ceil_div(d.batch, chunk) * ceil_div(d.tokens, warps * L::kWarpRows) *
                                                  ceil_div(d.tokens, L::kTileCols)
                                            : 0;
      const std::int64_t deltas = d.batch * d.heads * d.tokens;
      A *delta = wide_.get<A>(deltas + (dtable ? rows * cols : 0)), *terms = delta + deltas;
      const AttentionBackwardWork<T, WindowBias<A>> work{forward, dy.data<T>(), lse.data<A>(), delta};
      run_attention_backward(kOp, work, y.data<T>(), delta, dq, dk, dv, stream_);
      if (!dtable) return;
      launch(kOp, bias_terms<T, kWidth>, {rows * d.heads, warps * kWarp, L::bytes(2, 2, warps)}, stream_, work, chunk,
             terms);
      column_sums<1, A, Param<T>>(kOp, rows, cols, BiasTerms<A>{cols, terms}, {dtable}, partial_, stream_);
    });
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
