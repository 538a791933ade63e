// y = gamma x + beta.
#include "cuda/cuda_backend.h"
#include "cuda/vector_sums.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

template <class T>
struct Affine {
  const T* x;
  const Param<T>*gamma, *beta;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    Param<T> g[V], b[V];
    load(gamma + run.column, g);
    load(beta + run.column, b);
    run.each(
        [&](std::int64_t at, const T(&in)[V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) out[k] = g[k] * Acc<T>(in[k]) + b[k];
          put_all(y + at, out);
        },
        x);
  }
};

/// dx, and on the way the sums of dy x and dy, which are dgamma and dbeta.
template <class T>
struct AffineGradient {
  const T *dy, *x;
  const Param<T>* gamma;
  T* dx;
  bool add;
  template <int V>
  __device__ void operator()(SumRun<2, V, Acc<T>>& run) const {
    Param<T> g[V];
    load(gamma + run.column, g);
    run.each(
        [&](std::int64_t at, const T(&dys)[V], const T(&in)[V], Acc<T>(&terms)[2][V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) {
            const Acc<T> up = Acc<T>(dys[k]);
            terms[0][k] = up * Acc<T>(in[k]);
            terms[1][k] = up;
            out[k] = up * g[k];
          }
          if (dx) put_all(dx + at, out, add);
        },
        dy, x);
  }
};

}  // namespace

void CudaBackend::affine(Tensor x, Tensor gamma, Tensor beta, Tensor y) {
  for_type("affine", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_vector<T>("affine", Parts(x.shape().rows(), x.shape().back()),
                   aligned({x.raw(), gamma.raw(), beta.raw(), y.raw()}), stream_,
                   Affine<T>{x.data<T>(), gamma.data<Param<T>>(), beta.data<Param<T>>(), y.data<T>()});
  });
}

void CudaBackend::affine_backward(Tensor dy, Tensor x, Tensor gamma, Gradient dx, Gradient dgamma, Gradient dbeta) {
  for_type("affine", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    vector_sums<2, T>("affine_backward", x.shape().rows(), x.shape().back(),
                      aligned({dy.raw(), x.raw(), gamma.raw(), dx.to.raw()}),
                      AffineGradient<T>{dy.data<T>(), x.data<T>(), gamma.data<Param<T>>(), dx.to.data<T>(), adds(dx)},
                      {dgamma, dbeta}, partial_, stream_);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
