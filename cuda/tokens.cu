// Means of tokens, and the gradient of a token that all images share.
#include "cuda/cuda_backend.h"
#include "cuda/vector_sums.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// Value c of image b, of `size` values each.
template <class T>
struct ImageTerms {
  std::int64_t size;
  const T* dy;
  __device__ void operator()(std::int64_t b, std::int64_t c, Acc<T> (&terms)[1]) const {
    terms[0] = Acc<T>(dy[b * size + c]);
  }
};

/// Columns of one image, with its tokens in order. A row is an image.
template <class T>
struct MeanTokens {
  TokenDims d;
  const T* x;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    run.each([&](std::int64_t at) {
      const std::int64_t first = (at - run.column) * d.tokens + run.column;
      Acc<T> total[V] = {};
      const Run<V> tokens{first, d.cols, first + d.tokens * d.cols - run.column, run.column, 0};
      tokens.each(
          [&](std::int64_t, const T(&in)[V]) {
            for (int k = 0; k < V; ++k) total[k] += Acc<T>(in[k]);
          },
          x);
      for (int k = 0; k < V; ++k) total[k] /= Acc<T>(d.tokens);
      put_all(y + at, total);
    });
  }
};
/// A part is an image.
template <class T>
struct MeanTokensGradient {
  TokenDims d;
  const T* dy;
  T* dx;
  bool add;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    T up[V];
    load(dy + run.part * d.cols + run.column, up);
    run.each([&](std::int64_t at) {
      Acc<T> out[V];
      for (int k = 0; k < V; ++k) out[k] = Acc<T>(up[k]) / Acc<T>(d.tokens);
      put_all(dx + at, out, add);
    });
  }
};

}  // namespace

void CudaBackend::mean_tokens(TokenDims d, Tensor x, Tensor y) {
  for_type("mean_tokens", x.dtype(), [&]<class T>(Type<T>) {
    each_vector<T>("mean_tokens", Parts(d.batch, d.cols), aligned({x.raw(), y.raw()}), stream_,
                   MeanTokens<T>{d, x.data<T>(), y.data<T>()}, 1);
  });
}

void CudaBackend::mean_tokens_backward(TokenDims d, Tensor dy, Gradient dx) {
  if (!dx) return;
  for_type("mean_tokens", dy.dtype(), [&]<class T>(Type<T>) {
    each_vector<T>("mean_tokens_backward", Parts(d.batch * d.tokens, d.cols, d.tokens, d.batch),
                   aligned({dy.raw(), dx.to.raw()}), stream_,
                   MeanTokensGradient<T>{d, dy.data<T>(), dx.to.data<T>(), adds(dx)});
  });
}

void CudaBackend::put_token_backward(TokenDims d, Tensor dy, Gradient dtoken) {
  if (!dtoken) return;
  for_type("put_token_backward", dy.dtype(), [&]<class T>(Type<T>) {
    column_sums<1, Acc<T>, Param<T>>("put_token_backward", d.batch, dtoken.to.size(),
                                     ImageTerms<T>{d.tokens * d.cols, dy.data<T>()}, {dtoken}, sums_, stream_);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
