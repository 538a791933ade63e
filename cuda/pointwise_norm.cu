// Norms without statistics: y = gamma phi(alpha x + shift) + beta, with phi bounded (core/kernel_settings.h).
#include "cuda/cuda_backend.h"
#include "cuda/vector_sums.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// phi and its slope in u = alpha x + shift; for dyisru in x, with alpha under the root.
template <PointwisePhi kPhi, class A>
struct Phi {
  A alpha, shift, factor;

  __device__ Phi(const A* of_alpha, const A* of_shift, std::int64_t cols)
      : alpha(*of_alpha), shift(of_shift ? *of_shift : A(0)), factor(std::sqrt(A(cols))) {
    // No root of a negative alpha: NaN ends the training.
    if (kPhi == PointwisePhi::dyisru && !(alpha > 0)) alpha = A(std::nan(""));
  }
  __device__ void operator()(A x, A& value, A& slope) const {
    using enum PointwisePhi;
    constexpr A kTwoOverPi = A(0.63661977236758134308), kErfSlope = A(1.12837916709551257390);
    const A u = kPhi == dyisru ? x : alpha * x + shift;
    if constexpr (kPhi == tanh) {
      value = std::tanh(u);
      slope = 1 - value * value;
    } else if constexpr (kPhi == erf) {
      value = std::erf(u);
      slope = kErfSlope * std::exp(-u * u);
    } else if constexpr (kPhi == isru || kPhi == dyisru) {
      constexpr A kMost = A(1e15);  // keeps the square finite; beyond it the value is 1
      const A near = u > kMost ? kMost : u < -kMost ? -kMost : u, root = kPhi == dyisru ? alpha : A(1);
      const A inverse = 1 / (near * near + root), inverse_root = std::sqrt(inverse);
      value = near * inverse_root;
      slope = inverse * inverse_root;
      if (kPhi == dyisru) value *= factor;
      if (kPhi == dyisru) slope *= factor;
    } else if constexpr (kPhi == softsign) {
      const A inverse = 1 / (1 + std::abs(u));
      value = u * inverse;
      slope = inverse * inverse;
    } else if constexpr (kPhi == atan) {
      value = kTwoOverPi * std::atan(u);
      slope = kTwoOverPi / (1 + u * u);
    } else {
      value = u > 1 ? A(1) : u < -1 ? A(-1) : u;
      slope = std::abs(u) < 1 ? A(1) : A(0);
    }
  }
};

template <class T, PointwisePhi kPhi>
struct Forward {
  std::int64_t cols;
  const T* x;
  const Param<T>*alpha, *shift, *gamma, *beta;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    Param<T> g[V], b[V];
    load(gamma + run.column, g);
    load(beta + run.column, b);
    const Phi<kPhi, Acc<T>> phi(alpha, shift, cols);
    run.each(
        [&](std::int64_t at, const T(&in)[V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) {
            Acc<T> value, slope;
            phi(Acc<T>(in[k]), value, slope);
            out[k] = g[k] * value + b[k];
          }
          put_all(y + at, out);
        },
        x);
  }
};

/// As gradients() of the CPU. The sums are, in this order, dalpha, dshift, dgamma, dbeta.
template <class T, PointwisePhi kPhi>
struct GradientOf {
  std::int64_t cols;
  const T *dy, *x;
  const Param<T>*alpha, *shift, *gamma;
  T* dx;
  bool add;
  template <int V>
  __device__ void operator()(SumRun<4, V, Acc<T>>& run) const {
    Param<T> g[V];
    load(gamma + run.column, g);
    const Phi<kPhi, Acc<T>> phi(alpha, shift, cols);
    run.each(
        [&](std::int64_t at, Acc<T>(&terms)[4][V], const T(&dys)[V], const T(&xs)[V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) {
            const Acc<T> up = Acc<T>(dys[k]), in = Acc<T>(xs[k]);
            Acc<T> value, slope;
            phi(in, value, slope);
            const Acc<T> du = up * g[k] * slope;
            terms[0][k] = kPhi == PointwisePhi::dyisru ? du * in * Acc<T>(-0.5) : du * in;
            terms[1][k] = du;
            terms[2][k] = up * value;
            terms[3][k] = up;
            out[k] = phi.alpha * du;
          }
          if (dx) put_all(dx + at, out, add);
        },
        dy, x);
  }
};

}  // namespace

void CudaBackend::pointwise_norm(PointwisePhi phi, Tensor x, Tensor alpha, Tensor shift, Tensor gamma, Tensor beta,
                                 Tensor y) {
  for_type("pointwise_norm", x.dtype(), [&]<class T>(Type<T>) {
    using P = Param<T>;
    const std::int64_t cols = x.shape().back();
    for_pointwise_phi(phi, [&](auto which) {
      each_vector<T>("pointwise_norm", Parts(x.shape().rows(), cols),
                     aligned({x.raw(), gamma.raw(), beta.raw(), y.raw()}), stream_,
                     Forward<T, decltype(which)::value>{cols, x.data<T>(), alpha.data<P>(), shift.data<P>(),
                                                        gamma.data<P>(), beta.data<P>(), y.data<T>()});
    });
  });
}

void CudaBackend::pointwise_norm_backward(PointwisePhi phi, const NormBackward& n, Tensor alpha, Tensor shift,
                                          Gradient dalpha, Gradient dshift) {
  for_type("pointwise_norm_backward", n.x.dtype(), [&]<class T>(Type<T>) {
    using P = Param<T>;
    const std::int64_t cols = n.x.shape().back();
    for_pointwise_phi(phi, [&](auto which) {
      vector_sums<4, T, 2>(
          "pointwise_norm_backward", n.x.shape().rows(), cols,
          aligned({n.dy.raw(), n.x.raw(), n.gamma.raw(), n.dx.to.raw()}),
          GradientOf<T, decltype(which)::value>{cols, n.dy.data<T>(), n.x.data<T>(), alpha.data<P>(), shift.data<P>(),
                                                n.gamma.data<P>(), n.dx.to.data<T>(), adds(n.dx)},
          {dalpha, dshift, n.dgamma, n.dbeta}, sums_, stream_, {cols, cols, 1, 1});
    });
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
