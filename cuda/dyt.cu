// Dynamic Tanh, "Transformers without Normalization" section 4: y = gamma tanh(alpha x) + beta.
#include "cuda/cuda_backend.h"
#include "cuda/vector_sums.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

template <class T>
struct Dyt {
  const T* x;
  const Param<T>*alpha, *gamma, *beta;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    Param<T> g[V], b[V];
    load(gamma + run.column, g);
    load(beta + run.column, b);
    const Acc<T> a = *alpha;
    run.each(
        [&](std::int64_t at, const T(&in)[V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) out[k] = g[k] * std::tanh(a * Acc<T>(in[k])) + b[k];
          put_all(y + at, out);
        },
        x);
  }
};

/// du = dy gamma (1 - t^2) is the gradient of u = alpha x. dx = alpha du, and on the way the sums of du x, dy t and dy,
/// which are dalpha, dgamma and dbeta.
template <class T>
struct DytGradient {
  const T *dy, *x;
  const Param<T>*alpha, *gamma;
  T* dx;
  bool add;
  template <int V>
  __device__ void operator()(SumRun<3, V, Acc<T>>& run) const {
    Param<T> g[V];
    load(gamma + run.column, g);
    const Acc<T> a = *alpha;
    run.each(
        [&](std::int64_t at, const T(&dys)[V], const T(&xs)[V], Acc<T>(&terms)[3][V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) {
            const Acc<T> up = Acc<T>(dys[k]), in = Acc<T>(xs[k]), t = std::tanh(a * in), du = up * g[k] * (1 - t * t);
            terms[0][k] = du * in;
            terms[1][k] = up * t;
            terms[2][k] = up;
            out[k] = a * du;
          }
          if (dx) put_all(dx + at, out, add);
        },
        dy, x);
  }
};

}  // namespace

void CudaBackend::dyt(Tensor x, Tensor alpha, Tensor gamma, Tensor beta, Tensor y) {
  for_type("dyt", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using P = Param<T>;
    each_vector<T>("dyt", Parts(x.shape().rows(), x.shape().back()),
                   aligned({x.raw(), gamma.raw(), beta.raw(), y.raw()}), stream_,
                   Dyt<T>{x.data<T>(), alpha.data<P>(), gamma.data<P>(), beta.data<P>(), y.data<T>()});
  });
}

void CudaBackend::dyt_backward(const NormBackward& n, Tensor alpha, Gradient dalpha) {
  for_type("dyt", n.x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using P = Param<T>;
    const std::int64_t cols = n.x.shape().back();
    vector_sums<3, T>("dyt_backward", n.x.shape().rows(), cols,
                      aligned({n.dy.raw(), n.x.raw(), n.gamma.raw(), n.dx.to.raw()}),
                      DytGradient<T>{n.dy.data<T>(), n.x.data<T>(), alpha.data<P>(), n.gamma.data<P>(),
                                     n.dx.to.data<T>(), adds(n.dx)},
                      {dalpha, n.dgamma, n.dbeta}, partial_, stream_, {cols, 1, 1});
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
