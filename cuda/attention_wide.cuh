// Attention for heads wider than a tile: any width, slowly. A block has one row. Its warps compute the weights of some
// tokens of the other kind, each over all values of the head; then its threads compute the columns of the result.
#pragma once

#include "cuda/attention_work.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

inline constexpr int kWideThreads = 256, kWideTokens = 64;  // tokens whose weights are in shared memory at once

/// One head of one image: products of its tokens and what follows from them.
template <class T, class Bias>
class WideHead {
 public:
  using A = Acc<T>;
  __device__ WideHead(const AttentionWork<T, Bias>& work, HeadPart of)
      : work_(work),
        begin_(of.begin(work.dims, work.dims.stride)),
        row_(of.row(work.dims)),
        bias_(work.bias.of(of.image, of.head)) {}

  __device__ const T* at(const T* x, std::int64_t token) const { return x + begin_ + token * work_.dims.stride; }
  __device__ std::int64_t row() const { return row_; }
  /// Computed by a warp.
  __device__ A score(int query, int key) const {
    return work_.scale * dot(at(work_.q, query), at(work_.k, key)) +
           bias_.between(bias_.place(query), bias_.place(key));
  }
  __device__ A dot(const T* a, const T* b) const {
    return warp_sum_of<A>(work_.dims.head_dim, [&](std::int64_t c) { return A(a[c]) * A(b[c]); });
  }
  __device__ A kept(int query, int key) const {
    if (!work_.keep) return 1;
    return work_.keep[(row_ + query) * work_.dims.tokens + key] ? work_.inverse_keep : A(0);
  }

 private:
  using OfHead = decltype(std::declval<Bias>().of(0, 0));
  const AttentionWork<T, Bias>& work_;
  const std::int64_t begin_, row_;
  const OfHead bias_;
};

/// P M and dS between two tokens, by a warp.
template <class T, class Bias>
struct WideWeights {
  Acc<T> p, ds;
  __device__ WideWeights(const AttentionBackwardWork<T, Bias>& work, const WideHead<T, Bias>& head, const T* dy,
                         int query, int key) {
    const Acc<T> weight = std::exp(head.score(query, key) - work.lse[head.row() + query]), kept = head.kept(query, key);
    p = weight * kept;
    ds = weight * (head.dot(dy + query * work.forward.dims.width(), head.at(work.forward.v, key)) * kept -
                   work.delta[head.row() + query]);
  }
};

/// For each column c of the block's row: put(c, sum over tokens t of weight(t) x(t)[c]). Warps compute the weights, 64
/// at a time for 256 columns at a time.
template <class A, class Weight, class Row, class Put>
__device__ void wide_sums(int tokens, std::int64_t cols, Weight&& weight, Row&& x, Put&& put_column) {
  NORMLAB_SHARED(A, weights, kWideTokens);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, warps = kWideThreads / kWarp;
  for (std::int64_t begin = 0; begin < cols; begin += kWideThreads) {
    const std::int64_t c = begin + threadIdx.x;
    A sum = 0;
    for (int first = 0; first < tokens; first += kWideTokens) {
      const int count = tokens - first < kWideTokens ? tokens - first : kWideTokens;
      __syncthreads();  // no thread reads the previous weights any more
      for (int t = warp; t < count; t += warps) {
        const A value = weight(first + t);
        if (threadIdx.x % kWarp == 0) weights[t] = value;
      }
      __syncthreads();
      for (int t = 0; c < cols && t < count; ++t) sum += weights[t] * A(x(first + t)[c]);
    }
    if (c < cols) put_column(c, sum);
  }
}

/// lse, one warp per query.
template <class T, class Bias>
__global__ void wide_lse(AttentionWork<T, Bias> work, Acc<T>* lse) {
  using A = Acc<T>;
  const AttentionDims& d = work.dims;
  const std::int64_t r = row_of_warp();
  if (r >= d.batch * d.heads * d.tokens) return;  // a whole warp
  const int of = static_cast<int>(r / d.tokens), heads = static_cast<int>(d.heads);
  const WideHead<T, Bias> head(work, {of / heads, of % heads});
  A top = -std::numeric_limits<A>::infinity(), total = 0;
  for (int key = 0; key < d.tokens; ++key) {
    const A score = head.score(static_cast<int>(r % d.tokens), key), largest = score > top ? score : top;
    total = total * std::exp(top - largest) + std::exp(score - largest);
    top = largest;
  }
  if (threadIdx.x % kWarp == 0) lse[r] = top + std::log(total);
}

/// y, one block per query.
template <class T, class Bias>
__global__ void wide_attention(AttentionWork<T, Bias> work, const Acc<T>* lse, T* y) {
  using A = Acc<T>;
  const AttentionDims& d = work.dims;
  const BlockPart at = part_of_block(d, 1);
  const WideHead<T, Bias> head(work, at.of);
  T* out = y + at.of.begin(d, d.width()) + at.first * d.width();
  wide_sums<A>(
      static_cast<int>(d.tokens), d.head_dim,
      [&](int key) {
        return std::exp(head.score(at.first, key) - lse[head.row() + at.first]) * head.kept(at.first, key);
      },
      [&](int key) { return head.at(work.v, key); }, [&](std::int64_t c, A sum) { out[c] = T(sum); });
}

/// dq, one block per query; or dk or dv, one block per key.
enum class WideGradient : std::uint8_t { query, key, value };
template <class T, class Bias, WideGradient kOf>
__global__ void wide_gradient(AttentionBackwardWork<T, Bias> work, T* dx, bool add) {
  using A = Acc<T>;
  const AttentionDims& d = work.forward.dims;
  const BlockPart at = part_of_block(d, 1);
  const WideHead<T, Bias> head(work.forward, at.of);
  const T* dy = work.dy + at.of.begin(d, d.width());
  T* out = dx + at.of.begin(d, d.stride) + at.first * d.stride;
  wide_sums<A>(
      static_cast<int>(d.tokens), d.head_dim,
      [&](int other) {
        const int query = kOf == WideGradient::query ? at.first : other,
                  key = kOf == WideGradient::query ? other : at.first;
        const WideWeights<T, Bias> of(work, head, dy, query, key);
        return kOf == WideGradient::value ? of.p : work.forward.scale * of.ds;
      },
      [&](int other) {
        return kOf == WideGradient::value   ? dy + other * d.width()
               : kOf == WideGradient::query ? head.at(work.forward.k, other)
                                            : head.at(work.forward.q, other);
      },
      [&](std::int64_t c, A sum) { put(out[c], sum, add); });
}

inline Launch launch_of_wide(const AttentionDims& d) { return {d.batch * d.heads * d.tokens, kWideThreads}; }

template <class T, class Bias>
void run_wide_attention(const char* op, const AttentionWork<T, Bias>& work, Tensor y, Tensor lse,
                        const Stream& stream) {
  const AttentionDims& d = work.dims;
  launch(op, wide_lse<T, Bias>, warp_a_row(d.batch * d.heads * d.tokens), stream, work, lse.data<Acc<T>>());
  launch(op, wide_attention<T, Bias>, launch_of_wide(d), stream, work, lse.data<Acc<T>>(), y.data<T>());
}
/// delta must already be stored.
template <class T, class Bias>
void run_wide_gradients(const char* op, const AttentionBackwardWork<T, Bias>& work, Gradient dq, Gradient dk,
                        Gradient dv, const Stream& stream) {
  const Launch how = launch_of_wide(work.forward.dims);
  if (dq) launch(op, wide_gradient<T, Bias, WideGradient::query>, how, stream, work, dq.to.data<T>(), adds(dq));
  if (dk) launch(op, wide_gradient<T, Bias, WideGradient::key>, how, stream, work, dk.to.data<T>(), adds(dk));
  if (dv) launch(op, wide_gradient<T, Bias, WideGradient::value>, how, stream, work, dv.to.data<T>(), adds(dv));
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
