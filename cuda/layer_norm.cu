// LayerNorm, RMSNorm and the bare gain and bias. Rows are normalised over the last axis, a warp each.
#include "cuda/column_sums.cuh"
#include "cuda/cuda_backend.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// gamma, beta: null where the norm has none.
template <class T>
__global__ void layer_norm_forward(NormDims d, const T* x, const Param<T>* gamma, const Param<T>* beta, T* y,
                                   Acc<T>* mean, Acc<T>* rstd) {
  using A = Acc<T>;
  const std::int64_t r = row_of_warp();
  if (r >= d.rows) return;  // a whole warp
  const T* in = x + r * d.cols;
  T* out = y + r * d.cols;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  // Two passes: E[x^2] - E[x]^2 loses every digit once the mean dwarfs the spread.
  const A m = warp_sum_of<A>(d.cols, [&](std::int64_t c) { return A(in[c]); }) / A(d.cols);
  const A v = warp_sum_of<A>(d.cols,
                             [&](std::int64_t c) {
                               const A centred = A(in[c]) - m;
                               return centred * centred;
                             }) /
              A(d.cols);
  const A s = 1 / std::sqrt(v + A(d.eps));
  for (std::int64_t c = lane; c < d.cols; c += kWarp) {
    const A x_hat = (A(in[c]) - m) * s;
    out[c] = T(gamma ? gamma[c] * x_hat + beta[c] : x_hat);
  }
  if (lane == 0) {
    mean[r] = m;
    rstd[r] = s;
  }
}

/// dx = rstd (g - mean(g) - x_hat mean(g x_hat)), g = dy gamma.
template <class T>
__global__ void layer_norm_gradient(NormDims d, const T* dy, const T* x, const Param<T>* gamma, const Acc<T>* mean,
                                    const Acc<T>* rstd, T* dx, bool add) {
  using A = Acc<T>;
  const std::int64_t r = row_of_warp();
  if (r >= d.rows) return;
  dy += r * d.cols;
  x += r * d.cols;
  dx += r * d.cols;
  const A m = mean[r], s = rstd[r];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  A of_g = 0, of_gh = 0;
  for (std::int64_t c = lane; c < d.cols; c += kWarp) {
    const A g = gamma ? A(dy[c]) * gamma[c] : A(dy[c]);
    of_g += g;
    of_gh += g * ((A(x[c]) - m) * s);
  }
  const A mean_g = warp_sum(of_g) / A(d.cols), mean_gh = warp_sum(of_gh) / A(d.cols);
  for (std::int64_t c = lane; c < d.cols; c += kWarp) {
    const A g = gamma ? A(dy[c]) * gamma[c] : A(dy[c]);
    put(dx[c], s * (g - mean_g - (A(x[c]) - m) * s * mean_gh), add);
  }
}

/// Of dgamma and dbeta: dy x_hat and dy.
template <class T>
struct LayerNormTerms {
  std::int64_t cols;
  const T *dy, *x;
  const Acc<T>*mean, *rstd;
  __device__ void operator()(std::int64_t r, std::int64_t c, Acc<T> (&terms)[2]) const {
    const Acc<T> up = Acc<T>(dy[r * cols + c]);
    terms[0] = up * ((Acc<T>(x[r * cols + c]) - mean[r]) * rstd[r]);
    terms[1] = up;
  }
};

template <class T>
__global__ void rms_norm_forward(NormDims d, const T* x, const Param<T>* gamma, T* y, Acc<T>* rstd) {
  using A = Acc<T>;
  const std::int64_t r = row_of_warp();
  if (r >= d.rows) return;
  x += r * d.cols;
  y += r * d.cols;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const A square = warp_sum_of<A>(d.cols, [&](std::int64_t c) { return A(x[c]) * A(x[c]); }) / A(d.cols);
  const A s = 1 / std::sqrt(square + A(d.eps));
  for (std::int64_t c = lane; c < d.cols; c += kWarp) y[c] = T(gamma[c] * (A(x[c]) * s));
  if (lane == 0) rstd[r] = s;
}

/// dx = rstd (g - x_hat mean(g x_hat)), g = dy gamma, x_hat = x rstd.
template <class T>
__global__ void rms_norm_gradient(NormDims d, const T* dy, const T* x, const Param<T>* gamma, const Acc<T>* rstd, T* dx,
                                  bool add) {
  using A = Acc<T>;
  const std::int64_t r = row_of_warp();
  if (r >= d.rows) return;
  dy += r * d.cols;
  x += r * d.cols;
  dx += r * d.cols;
  const A s = rstd[r];
  const A mean_gh =
      warp_sum_of<A>(d.cols, [&](std::int64_t c) { return A(dy[c]) * gamma[c] * (A(x[c]) * s); }) / A(d.cols);
  for (std::int64_t c = threadIdx.x % kWarp; c < d.cols; c += kWarp)
    put(dx[c], s * (A(dy[c]) * gamma[c] - A(x[c]) * s * mean_gh), add);
}

template <class T>
struct RmsNormTerms {
  std::int64_t cols;
  const T *dy, *x;
  const Acc<T>* rstd;
  __device__ void operator()(std::int64_t r, std::int64_t c, Acc<T> (&terms)[1]) const {
    terms[0] = Acc<T>(dy[r * cols + c]) * (Acc<T>(x[r * cols + c]) * rstd[r]);
  }
};

}  // namespace

void CudaBackend::layer_norm(NormDims d, Tensor x, Tensor gamma, Tensor beta, Tensor y, Tensor mean, Tensor rstd) {
  for_type("layer_norm", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("layer_norm", layer_norm_forward<T>, warp_a_row(d.rows), stream_, d, x.data<T>(), gamma.data<Param<T>>(),
           beta.data<Param<T>>(), y.data<T>(), mean.data<Acc<T>>(), rstd.data<Acc<T>>());
  });
}

void CudaBackend::layer_norm_backward(NormDims d, Tensor dy, Tensor x, Tensor gamma, Tensor mean, Tensor rstd,
                                      Gradient dx, Gradient dgamma, Gradient dbeta) {
  for_type("layer_norm", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T *up = dy.data<T>(), *in = x.data<T>();
    const Acc<T>*m = mean.data<Acc<T>>(), *s = rstd.data<Acc<T>>();
    if (dx)
      launch("layer_norm_backward", layer_norm_gradient<T>, warp_a_row(d.rows), stream_, d, up, in,
             gamma.data<Param<T>>(), m, s, dx.to.data<T>(), adds(dx));
    column_sums<2, Acc<T>, Param<T>>("layer_norm_backward", d.rows, d.cols, LayerNormTerms<T>{d.cols, up, in, m, s},
                                     {dgamma, dbeta}, partial_, stream_);
  });
}

void CudaBackend::rms_norm(NormDims d, Tensor x, Tensor gamma, Tensor y, Tensor rstd) {
  for_type("rms_norm", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("rms_norm", rms_norm_forward<T>, warp_a_row(d.rows), stream_, d, x.data<T>(), gamma.data<Param<T>>(),
           y.data<T>(), rstd.data<Acc<T>>());
  });
}

void CudaBackend::rms_norm_backward(NormDims d, Tensor dy, Tensor x, Tensor gamma, Tensor rstd, Gradient dx,
                                    Gradient dgamma) {
  for_type("rms_norm", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T *up = dy.data<T>(), *in = x.data<T>();
    const Acc<T>* s = rstd.data<Acc<T>>();
    if (dx)
      launch("rms_norm_backward", rms_norm_gradient<T>, warp_a_row(d.rows), stream_, d, up, in, gamma.data<Param<T>>(),
             s, dx.to.data<T>(), adds(dx));
    column_sums<1, Acc<T>, Param<T>>("rms_norm_backward", d.rows, d.cols, RmsNormTerms<T>{d.cols, up, in, s}, {dgamma},
                                     partial_, stream_);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
