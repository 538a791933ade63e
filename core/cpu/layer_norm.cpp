// LayerNorm, RMSNorm and the bare gain and bias. Rows are normalised over the last axis.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

template <class T>
void layer_norm_forward(NormDims d, const T* x, const Param<T>* gamma, const Param<T>* beta, T* y, Acc<T>* mean,
                        Acc<T>* rstd) {
  using A = Acc<T>;
  for (std::int64_t r = 0; r < d.rows; ++r) {
    const T* xr = x + r * d.cols;
    // Two passes: E[x^2] - E[x]^2 loses every digit once the mean dwarfs the spread.
    const A m = sum<A>(d.cols, [&](auto c) { return A(xr[c]); }) / A(d.cols);
    const A v = sum<A>(d.cols, [&](auto c) { return (A(xr[c]) - m) * (A(xr[c]) - m); }) / A(d.cols);
    const A s = 1 / std::sqrt(v + A(d.eps));
    T* yr = y + r * d.cols;
    if (gamma)
      for (std::int64_t c = 0; c < d.cols; ++c) yr[c] = T(gamma[c] * ((A(xr[c]) - m) * s) + beta[c]);
    else
      for (std::int64_t c = 0; c < d.cols; ++c) yr[c] = T((A(xr[c]) - m) * s);
    mean[r] = m;
    rstd[r] = s;
  }
}

/// dx = rstd (g - mean(g) - x_hat mean(g x_hat)), g = dy gamma.
template <class T>
void layer_norm_gradients(NormDims d, const T* dy, const T* x, const Param<T>* gamma, const Acc<T>* mean,
                          const Acc<T>* rstd, Gradient dx, Gradient dgamma, Gradient dbeta) {
  using A = Acc<T>;
  const auto up = [&](std::int64_t r, std::int64_t c) { return A(dy[r * d.cols + c]); };
  const auto x_hat = [&](std::int64_t r, std::int64_t c) { return (A(x[r * d.cols + c]) - mean[r]) * rstd[r]; };
  if (dx) {
    A *g = scratch<A>(Slot::a, d.cols), *h = scratch<A>(Slot::b, d.cols);
    for (std::int64_t r = 0; r < d.rows; ++r) {
      for (std::int64_t c = 0; c < d.cols; ++c) {
        g[c] = gamma ? up(r, c) * gamma[c] : up(r, c);
        h[c] = x_hat(r, c);
      }
      const A mean_g = sum<A>(d.cols, [&](auto c) { return g[c]; }) / A(d.cols);
      const A mean_gh = sum<A>(d.cols, [&](auto c) { return g[c] * h[c]; }) / A(d.cols);
      T* out = dx.to.data<T>() + r * d.cols;
      for (std::int64_t c = 0; c < d.cols; ++c) put(out[c], rstd[r] * (g[c] - mean_g - h[c] * mean_gh), adds(dx));
    }
  }
  sum_columns<Param<T>>(d.rows, d.cols, Slot::c, dgamma, [&](auto r, auto c) { return up(r, c) * x_hat(r, c); });
  sum_columns<Param<T>>(d.rows, d.cols, Slot::c, dbeta, up);
}

template <class T>
void rms_norm_forward(NormDims d, const T* x, const Param<T>* gamma, T* y, Acc<T>* rstd) {
  using A = Acc<T>;
  for (std::int64_t r = 0; r < d.rows; ++r) {
    const T* xr = x + r * d.cols;
    const A square = sum<A>(d.cols, [&](auto c) { return A(xr[c]) * A(xr[c]); }) / A(d.cols);
    const A s = 1 / std::sqrt(square + A(d.eps));
    for (std::int64_t c = 0; c < d.cols; ++c) y[r * d.cols + c] = T(gamma[c] * (A(xr[c]) * s));
    rstd[r] = s;
  }
}

/// dx = rstd (g - x_hat mean(g x_hat)), g = dy gamma, x_hat = x rstd.
template <class T>
void rms_norm_gradients(NormDims d, const T* dy, const T* x, const Param<T>* gamma, const Acc<T>* rstd, Gradient dx,
                        Gradient dgamma) {
  using A = Acc<T>;
  if (dx) {
    for (std::int64_t r = 0; r < d.rows; ++r) {
      const T *g = dy + r * d.cols, *xr = x + r * d.cols;
      const A s = rstd[r];
      const A mean_gh = sum<A>(d.cols, [&](auto c) { return A(g[c]) * gamma[c] * (A(xr[c]) * s); }) / A(d.cols);
      T* out = dx.to.data<T>() + r * d.cols;
      for (std::int64_t c = 0; c < d.cols; ++c)
        put(out[c], s * (A(g[c]) * gamma[c] - A(xr[c]) * s * mean_gh), adds(dx));
    }
  }
  sum_columns<Param<T>>(d.rows, d.cols, Slot::c, dgamma,
                        [&](auto r, auto c) { return A(dy[r * d.cols + c]) * (A(x[r * d.cols + c]) * rstd[r]); });
}

}  // namespace

void CpuBackend::layer_norm(NormDims d, Tensor x, Tensor gamma, Tensor beta, Tensor y, Tensor mean, Tensor rstd) {
  for_type("layer_norm", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    layer_norm_forward<T>(d, x.data<T>(), gamma.data<Param<T>>(), beta.data<Param<T>>(), y.data<T>(),
                          mean.data<Acc<T>>(), rstd.data<Acc<T>>());
  });
}

void CpuBackend::layer_norm_backward(NormDims d, Tensor dy, Tensor x, Tensor gamma, Tensor mean, Tensor rstd,
                                     Gradient dx, Gradient dgamma, Gradient dbeta) {
  for_type("layer_norm", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    layer_norm_gradients<T>(d, dy.data<T>(), x.data<T>(), gamma.data<Param<T>>(), mean.data<Acc<T>>(),
                            rstd.data<Acc<T>>(), dx, dgamma, dbeta);
  });
}

void CpuBackend::rms_norm(NormDims d, Tensor x, Tensor gamma, Tensor y, Tensor rstd) {
  for_type("rms_norm", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    rms_norm_forward<T>(d, x.data<T>(), gamma.data<Param<T>>(), y.data<T>(), rstd.data<Acc<T>>());
  });
}

void CpuBackend::rms_norm_backward(NormDims d, Tensor dy, Tensor x, Tensor gamma, Tensor rstd, Gradient dx,
                                   Gradient dgamma) {
  for_type("rms_norm", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    rms_norm_gradients<T>(d, dy.data<T>(), x.data<T>(), gamma.data<Param<T>>(), rstd.data<Acc<T>>(), dx, dgamma);
  });
}

void CpuBackend::affine(Tensor x, Tensor gamma, Tensor beta, Tensor y) {
  for_type("affine", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t rows = x.shape().rows(), cols = x.shape().back();
    const T* in = x.data<T>();
    const Param<T>*g = gamma.data<Param<T>>(), *b = beta.data<Param<T>>();
    T* out = y.data<T>();
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) out[r * cols + c] = T(g[c] * Acc<T>(in[r * cols + c]) + b[c]);
  });
}

void CpuBackend::affine_backward(Tensor dy, Tensor x, Tensor gamma, Gradient dx, Gradient dgamma, Gradient dbeta) {
  for_type("affine", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    const std::int64_t rows = x.shape().rows(), cols = x.shape().back();
    const T *in = x.data<T>(), *up = dy.data<T>();
    const Param<T>* g = gamma.data<Param<T>>();
    if (dx)
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c)
          put(dx.to.data<T>()[r * cols + c], A(up[r * cols + c]) * g[c], adds(dx));
    sum_columns<Param<T>>(rows, cols, Slot::c, dgamma,
                          [&](auto r, auto c) { return A(up[r * cols + c]) * A(in[r * cols + c]); });
    sum_columns<Param<T>>(rows, cols, Slot::c, dbeta, [&](auto r, auto c) { return A(up[r * cols + c]); });
  });
}

}  // namespace normlab
