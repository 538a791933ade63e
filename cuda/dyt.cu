// Dynamic Tanh, "Transformers without Normalization" section 4: y = gamma tanh(alpha x) + beta.
#include "cuda/column_sums.cuh"
#include "cuda/cuda_backend.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

template <class T>
struct Dyt {
  std::int64_t cols;
  const T* x;
  const Param<T>*alpha, *gamma, *beta;
  T* y;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t c = i % cols;
    y[i] = T(gamma[c] * std::tanh(*alpha * Acc<T>(x[i])) + beta[c]);
  }
};

/// du = dy gamma (1 - t^2) is the gradient of u = alpha x; dx = alpha du.
template <class T>
struct DytGradient {
  std::int64_t cols;
  const T *dy, *x;
  const Param<T>*alpha, *gamma;
  T* dx;
  bool add;
  __device__ void operator()(std::int64_t i) const {
    const Acc<T> t = std::tanh(*alpha * Acc<T>(x[i]));
    put(dx[i], *alpha * (Acc<T>(dy[i]) * gamma[i % cols] * (1 - t * t)), add);
  }
};

/// Of dalpha, dgamma and dbeta: du x, dy t and dy.
template <class T>
struct DytTerms {
  std::int64_t cols;
  const T *dy, *x;
  const Param<T>*alpha, *gamma;
  __device__ void operator()(std::int64_t r, std::int64_t c, Acc<T> (&terms)[3]) const {
    const Acc<T> up = Acc<T>(dy[r * cols + c]), in = Acc<T>(x[r * cols + c]), t = std::tanh(*alpha * in);
    terms[0] = up * gamma[c] * (1 - t * t) * in;
    terms[1] = up * t;
    terms[2] = up;
  }
};

}  // namespace

void CudaBackend::dyt(Tensor x, Tensor alpha, Tensor gamma, Tensor beta, Tensor y) {
  for_type("dyt", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("dyt", x.size(), stream_,
                 Dyt<T>{x.shape().back(), x.data<T>(), alpha.data<Param<T>>(), gamma.data<Param<T>>(),
                        beta.data<Param<T>>(), y.data<T>()});
  });
}

void CudaBackend::dyt_backward(Tensor dy, Tensor x, Tensor alpha, Tensor gamma, Gradient dx, Gradient dalpha,
                               Gradient dgamma, Gradient dbeta) {
  for_type("dyt", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t rows = x.shape().rows(), cols = x.shape().back();
    const T *up = dy.data<T>(), *in = x.data<T>();
    const Param<T>*a = alpha.data<Param<T>>(), *g = gamma.data<Param<T>>();
    if (dx)
      each_element("dyt_backward", x.size(), stream_, DytGradient<T>{cols, up, in, a, g, dx.to.data<T>(), adds(dx)});
    column_sums<3, Acc<T>, Param<T>>("dyt_backward", rows, cols, DytTerms<T>{cols, up, in, a, g},
                                     {dalpha, dgamma, dbeta}, partial_, stream_, {cols, 1, 1});
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
