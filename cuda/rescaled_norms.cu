// SeeDNorm and BHyT: RMSNorm with a gain that depends on the row, and RMSNorm inside a tanh. A warp per row.
#include "cuda/column_sums.cuh"
#include "cuda/cuda_backend.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// 1 / sqrt(mean(x^2) + eps) of a row.
template <class T>
__device__ Acc<T> rms_scale(NormDims d, const T* x) {
  using A = Acc<T>;
  const A squares = warp_sum_of<A>(d.cols, [&](std::int64_t c) { return A(x[c]) * A(x[c]); });
  return 1 / std::sqrt(squares / A(d.cols) + A(d.eps));
}

template <class T>
__global__ void seednorm_forward(NormDims d, const T* x, const Param<T>* alpha, const Param<T>* beta,
                                 const Param<T>* gamma, T* y, Acc<T>* rstd, Acc<T>* gates) {
  using A = Acc<T>;
  const std::int64_t r = row_of_warp();
  if (r >= d.rows) return;  // a whole warp
  x += r * d.cols;
  y += r * d.cols;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const A s = rms_scale(d, x);
  const A gate = std::tanh(warp_sum_of<A>(d.cols, [&](std::int64_t c) { return A(x[c]) * beta[c]; }));
  for (std::int64_t c = lane; c < d.cols; c += kWarp) y[c] = T((gamma[c] + gate * alpha[c]) * (A(x[c]) * s));
  if (lane != 0) return;
  rstd[r] = s;
  gates[r] = gate;
}

/// The gradients of x and, in `of_dot`, of x . beta; see the CPU's seednorm_gradients().
template <class T>
__global__ void seednorm_gradient(NormDims d, const T* dy, const T* x, const Param<T>* alpha, const Param<T>* beta,
                                  const Param<T>* gamma, const Acc<T>* rstd, const Acc<T>* gates, T* dx, bool add,
                                  double* of_dot) {
  using A = Acc<T>;
  const std::int64_t r = row_of_warp();
  if (r >= d.rows) return;
  dy += r * d.cols;
  x += r * d.cols;
  const A s = rstd[r], gate = gates[r];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  A of_wh = 0, of_ah = 0;
  for (std::int64_t c = lane; c < d.cols; c += kWarp) {
    const A uph = A(dy[c]) * (A(x[c]) * s);
    of_wh += uph * (gamma[c] + gate * alpha[c]);
    of_ah += uph * alpha[c];
  }
  const A mean_wh = warp_sum(of_wh) / A(d.cols), dot = (1 - gate * gate) * warp_sum(of_ah);
  if (lane == 0) of_dot[r] = double(dot);
  if (!dx) return;
  dx += r * d.cols;
  for (std::int64_t c = lane; c < d.cols; c += kWarp)
    put(dx[c], s * (A(dy[c]) * (gamma[c] + gate * alpha[c]) - A(x[c]) * s * mean_wh) + dot * beta[c], add);
}

/// Terms of dgamma, dalpha and dbeta.
template <class T>
struct SeednormTerms {
  std::int64_t cols;
  const T *dy, *x;
  const Acc<T>*rstd, *gates;
  const double* of_dot;
  __device__ void operator()(std::int64_t r, std::int64_t c, Acc<T> (&terms)[3]) const {
    const Acc<T> in = Acc<T>(x[r * cols + c]), uph = Acc<T>(dy[r * cols + c]) * (in * rstd[r]);
    terms[0] = uph;
    terms[1] = gates[r] * uph;
    terms[2] = Acc<T>(of_dot[r]) * in;
  }
};

template <class T>
__global__ void bhyt_forward(NormDims d, double kappa, const T* x, const Param<T>* alpha, const Param<T>* gamma, T* y,
                             Acc<T>* rstd) {
  using A = Acc<T>;
  const std::int64_t r = row_of_warp();
  if (r >= d.rows) return;
  x += r * d.cols;
  y += r * d.cols;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const A s = rms_scale(d, x), scale = A(double(*alpha) / kappa) * s;
  for (std::int64_t c = lane; c < d.cols; c += kWarp) y[c] = T(gamma[c] * std::tanh(A(x[c]) * scale));
  if (lane == 0) rstd[r] = s;
}

template <class T>
__global__ void bhyt_gradient(NormDims d, double kappa, const T* dy, const T* x, const Param<T>* alpha,
                              const Param<T>* gamma, const Acc<T>* rstd, T* dx, bool add) {
  using A = Acc<T>;
  const std::int64_t r = row_of_warp();
  if (r >= d.rows) return;
  dy += r * d.cols;
  x += r * d.cols;
  dx += r * d.cols;
  const A s = rstd[r], scale = A(double(*alpha) / kappa) * s;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto of_argument = [&](std::int64_t c) {
    const A t = std::tanh(A(x[c]) * scale);
    return A(dy[c]) * gamma[c] * (1 - t * t);
  };
  A of_uh = 0;
  for (std::int64_t c = lane; c < d.cols; c += kWarp) of_uh += of_argument(c) * (A(x[c]) * s);
  const A mean_uh = warp_sum(of_uh) / A(d.cols);
  for (std::int64_t c = lane; c < d.cols; c += kWarp) put(dx[c], scale * (of_argument(c) - A(x[c]) * s * mean_uh), add);
}

/// Terms of dgamma and dalpha.
template <class T>
struct BhytTerms {
  std::int64_t cols;
  double kappa;
  const T *dy, *x;
  const Param<T>*alpha, *gamma;
  const Acc<T>* rstd;
  __device__ void operator()(std::int64_t r, std::int64_t c, Acc<T> (&terms)[2]) const {
    const Acc<T> up = Acc<T>(dy[r * cols + c]), in = Acc<T>(x[r * cols + c]) * rstd[r];
    const Acc<T> t = std::tanh(in * Acc<T>(double(*alpha) / kappa));
    terms[0] = up * t;
    terms[1] = up * gamma[c] * (1 - t * t) * in / Acc<T>(kappa);
  }
};

}  // namespace

void CudaBackend::seednorm(NormDims d, const NormForward& n, Tensor alpha, Tensor gates) {
  for_type("seednorm", n.x.dtype(), [&]<class T>(Type<T>) {
    using P = Param<T>;
    launch("seednorm", seednorm_forward<T>, warp_a_row(d.rows), stream_, d, n.x.data<T>(), alpha.data<P>(),
           n.beta.data<P>(), n.gamma.data<P>(), n.y.data<T>(), n.rstd.data<Acc<T>>(), gates.data<Acc<T>>());
  });
}

void CudaBackend::seednorm_backward(NormDims d, const NormBackward& n, Tensor alpha, Tensor beta, Tensor gates,
                                    Gradient dalpha) {
  for_type("seednorm_backward", n.x.dtype(), [&]<class T>(Type<T>) {
    using P = Param<T>;
    using A = Acc<T>;
    double* of_dot = wide_.get<double>(d.rows);
    launch("seednorm_backward", seednorm_gradient<T>, warp_a_row(d.rows), stream_, d, n.dy.data<T>(), n.x.data<T>(),
           alpha.data<P>(), beta.data<P>(), n.gamma.data<P>(), n.rstd.data<A>(), gates.data<A>(), n.dx.to.data<T>(),
           n.dx && adds(n.dx), of_dot);
    column_sums<3, A, P>(
        "seednorm_backward", d.rows, d.cols,
        SeednormTerms<T>{d.cols, n.dy.data<T>(), n.x.data<T>(), n.rstd.data<A>(), gates.data<A>(), of_dot},
        {n.dgamma, dalpha, n.dbeta}, sums_, stream_);
  });
}

void CudaBackend::bhyt(NormDims d, double kappa, const NormForward& n, Tensor alpha) {
  for_type("bhyt", n.x.dtype(), [&]<class T>(Type<T>) {
    using P = Param<T>;
    launch("bhyt", bhyt_forward<T>, warp_a_row(d.rows), stream_, d, kappa, n.x.data<T>(), alpha.data<P>(),
           n.gamma.data<P>(), n.y.data<T>(), n.rstd.data<Acc<T>>());
  });
}

void CudaBackend::bhyt_backward(NormDims d, double kappa, const NormBackward& n, Tensor alpha, Gradient dalpha) {
  for_type("bhyt_backward", n.x.dtype(), [&]<class T>(Type<T>) {
    using P = Param<T>;
    using A = Acc<T>;
    if (n.dx)
      launch("bhyt_backward", bhyt_gradient<T>, warp_a_row(d.rows), stream_, d, kappa, n.dy.data<T>(), n.x.data<T>(),
             alpha.data<P>(), n.gamma.data<P>(), n.rstd.data<A>(), n.dx.to.data<T>(), adds(n.dx));
    column_sums<2, A, P>("bhyt_backward", d.rows, d.cols,
                         BhytTerms<T>{d.cols, kappa, n.dy.data<T>(), n.x.data<T>(), alpha.data<P>(), n.gamma.data<P>(),
                                      n.rstd.data<A>()},
                         {n.dgamma, dalpha}, sums_, stream_, {1, d.cols});
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
