// Attention from one token of each image to all its tokens. A block has a head of an image: its warps compute the
// weights, one token each at a time, and then its threads the columns of the result.
#include "cuda/cuda_backend.h"
#include "cuda/kernel.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

constexpr int kTokenThreads = 128;

/// This block's head: its offsets in q and y, in k and v, and in the weights.
struct TokenHead {
  std::int64_t token, tokens, weights;
  int warp, warps;
  __device__ explicit TokenHead(AttentionDims d)
      : token(blockIdx.x * d.head_dim),
        tokens(blockIdx.x / d.heads * d.tokens * d.stride + blockIdx.x % d.heads * d.head_dim),
        weights(blockIdx.x * d.tokens),
        warp(static_cast<int>(threadIdx.x) / kWarp),
        warps(static_cast<int>(blockDim.x) / kWarp) {}
};

template <class A, class T>
__device__ A warp_dot(std::int64_t n, const T* a, const T* b) {
  return warp_sum_of<A>(n, [&](std::int64_t c) { return A(a[c]) * A(b[c]); });
}

template <class A>
__device__ A block_max(A value) {
  NORMLAB_SHARED(A, partial, kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  value = warp_max(value);
  __syncthreads();
  if (lane == 0) partial[threadIdx.x / kWarp] = value;
  __syncthreads();
  return warp_max(partial[lane < static_cast<int>(blockDim.x) / kWarp ? lane : 0]);
}

template <class T>
__global__ void token_forward(AttentionDims d, Acc<T> scale, const T* q, const T* k, const T* v, T* y,
                              Acc<T>* all_weights) {
  using A = Acc<T>;
  const TokenHead at(d);
  A* const weights = all_weights + at.weights;
  for (std::int64_t n = at.warp; n < d.tokens; n += at.warps) {
    const A score = scale * warp_dot<A>(d.head_dim, q + at.token, k + at.tokens + n * d.stride);
    if (threadIdx.x % kWarp == 0) weights[n] = score;
  }
  __syncthreads();
  A top = weights[0];
  for (std::int64_t n = threadIdx.x; n < d.tokens; n += blockDim.x) top = weights[n] > top ? weights[n] : top;
  top = block_max(top);
  const A inverse =
      1 / block_sum_of<A>(d.tokens, [&](std::int64_t n) { return weights[n] = std::exp(weights[n] - top); });
  for (std::int64_t n = threadIdx.x; n < d.tokens; n += blockDim.x) weights[n] *= inverse;
  __syncthreads();
  for (std::int64_t c = threadIdx.x; c < d.head_dim; c += blockDim.x) {
    A total = 0;
    for (std::int64_t n = 0; n < d.tokens; ++n) total += weights[n] * A(v[at.tokens + n * d.stride + c]);
    y[at.token + c] = T(total);
  }
}

/// ds [B, H, N] is memory for the gradients of the scores. dq, dk and dv may be null.
template <class T>
__global__ void token_gradients(AttentionDims d, Acc<T> scale, const T* dy, const T* q, const T* k, const T* v,
                                const Acc<T>* all_weights, Acc<T>* all_ds, T* dq, bool add_q, T* dk, bool add_k, T* dv,
                                bool add_v) {
  using A = Acc<T>;
  const TokenHead at(d);
  const A* const weights = all_weights + at.weights;
  A* const ds = all_ds + at.weights;
  for (std::int64_t n = at.warp; n < d.tokens; n += at.warps) {
    const A dw = warp_dot<A>(d.head_dim, dy + at.token, v + at.tokens + n * d.stride);
    if (threadIdx.x % kWarp == 0) ds[n] = dw;
  }
  __syncthreads();
  const A mean = block_sum_of<A>(d.tokens, [&](std::int64_t n) { return weights[n] * ds[n]; });
  for (std::int64_t n = threadIdx.x; n < d.tokens; n += blockDim.x) ds[n] = weights[n] * (ds[n] - mean) * scale;
  __syncthreads();
  for (std::int64_t c = threadIdx.x; c < d.head_dim; c += blockDim.x) {
    const A of_y = A(dy[at.token + c]), of_q = A(q[at.token + c]);
    A total = 0;
    for (std::int64_t n = 0; n < d.tokens; ++n) {
      const std::int64_t place = at.tokens + n * d.stride + c;
      total += ds[n] * A(k[place]);
      if (dk) put(dk[place], ds[n] * of_q, add_k);
      if (dv) put(dv[place], weights[n] * of_y, add_v);
    }
    if (dq) put(dq[at.token + c], total, add_q);
  }
}

template <class A>
A scale_of(const AttentionDims& d) {
  return A(1 / std::sqrt(double(d.head_dim)));
}

}  // namespace

void CudaBackend::token_attention(AttentionDims d, const TokenAttention& args) {
  for_type("token_attention", args.q.dtype(), [&]<class T>(Type<T>) {
    launch("token_attention", token_forward<T>, {d.batch * d.heads, kTokenThreads}, stream_, d, scale_of<Acc<T>>(d),
           args.q.data<T>(), args.k.data<T>(), args.v.data<T>(), args.y.data<T>(), args.weights.data<Acc<T>>());
  });
}

void CudaBackend::token_attention_backward(AttentionDims d, const TokenAttentionBackward& args) {
  for_type("token_attention_backward", args.q.dtype(), [&]<class T>(Type<T>) {
    const auto to = [](const Gradient& g) { return g ? g.to.data<T>() : nullptr; };
    launch("token_attention_backward", token_gradients<T>, {d.batch * d.heads, kTokenThreads}, stream_, d,
           scale_of<Acc<T>>(d), args.dy.data<T>(), args.q.data<T>(), args.k.data<T>(), args.v.data<T>(),
           args.weights.data<Acc<T>>(), wide_.get<Acc<T>>(d.batch * d.heads * d.tokens), to(args.dq), adds(args.dq),
           to(args.dk), adds(args.dk), to(args.dv), adds(args.dv));
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
