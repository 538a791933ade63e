// SeeDNorm and BHyT: RMSNorm with a gain that depends on the row, and RMSNorm inside a tanh. Rows are normalised over
// the last axis; what a kernel reads again of a row is still in the first-level cache.
#include "core/cpu/kernel.h"
#include "core/cpu/vector_exp.h"

namespace normlab {
using namespace cpu;
namespace {

template <class A>
[[gnu::always_inline]] inline Vec<A> tanh_any(Vec<A> v) {
  if constexpr (std::is_same_v<A, float>) {
    return tanh_of(v);
  } else {
    for (std::size_t i = 0; i < sizeof(v) / sizeof(v[0]); ++i) v[i] = std::tanh(v[i]);
    return v;
  }
}

/// 1 / sqrt(mean(x^2) + eps) of a row.
template <class T>
Acc<T> rms_scale(NormDims d, const T* x) {
  using A = Acc<T>;
  const A squares = row_sum<A>(d.cols, [&](auto c, auto n) {
    const Vec<A> v = load(x + c, n);
    return v * v;
  });
  return 1 / std::sqrt(squares / A(d.cols) + A(d.eps));
}

template <class T>
void seednorm_forward(NormDims d, const NormForward& n, const Param<T>* alpha, Acc<T>* gates) {
  using A = Acc<T>;
  const T* x = n.x.data<T>();
  const Param<T>*gamma = n.gamma.data<Param<T>>(), *beta = n.beta.data<Param<T>>();
  T* y = n.y.data<T>();
  for (std::int64_t r = 0; r < d.rows; ++r, x += d.cols, y += d.cols) {
    const A s = rms_scale(d, x);
    const A gate = std::tanh(row_sum<A>(d.cols, [&](auto c, auto k) { return load(x + c, k) * load(beta + c, k); }));
    each_vector<A>(d.cols, [&](auto c, auto k) {
      store(y + c, (load(gamma + c, k) + gate * load(alpha + c, k)) * (load(x + c, k) * s), k);
    });
    n.rstd.data<A>()[r] = s;
    gates[r] = gate;
  }
}

/// With x_hat = x rstd and w = gamma + gate alpha: dx = rstd (dy w - x_hat mean(dy w x_hat)) + d beta, where
/// d = (1 - gate^2) sum(dy alpha x_hat) is the gradient of x . beta. dgamma = sum of dy x_hat, dalpha of gate dy x_hat,
/// dbeta of d x, over rows.
template <class T, bool kAdd>
void seednorm_gradients(NormDims d, const NormBackward& n, const Param<T>* alpha, const Param<T>* beta,
                        const Acc<T>* gates, const Gradient& dalpha) {
  using A = Acc<T>;
  RowAdder<A, 3> sums(Slot::c, d.cols);
  const T *dy = n.dy.data<T>(), *x = n.x.data<T>();
  const Param<T>* gamma = n.gamma.data<Param<T>>();
  T* out = n.dx.to.data<T>();
  for (std::int64_t r = 0; r < d.rows; ++r, dy += d.cols, x += d.cols) {
    const A s = n.rstd.data<A>()[r], gate = gates[r];
    Vec<A> of_wh{}, of_ah{};
    each_vector<A>(d.cols, [&](auto c, auto k) {
      const Vec<A> uph = load(dy + c, k) * (load(x + c, k) * s), a = load(alpha + c, k);
      of_wh += uph * (load(gamma + c, k) + gate * a);
      of_ah += uph * a;
      sums.add(0, c, uph, k);
      sums.add(1, c, gate * uph, k);
    });
    const A mean_wh = lane_sum(of_wh) / A(d.cols), of_dot = (1 - gate * gate) * lane_sum(of_ah);
    each_vector<A>(d.cols, [&](auto c, auto k) {
      const Vec<A> in = load(x + c, k), w = load(gamma + c, k) + gate * load(alpha + c, k);
      sums.add(2, c, of_dot * in, k);
      if (out) put<kAdd>(out + c, s * (load(dy + c, k) * w - in * s * mean_wh) + of_dot * load(beta + c, k), k);
    });
    sums.end_rows(1);
    if (out) out += d.cols;
  }
  sums.template finish<Param<T>>(0, n.dgamma);
  sums.template finish<Param<T>>(1, dalpha);
  sums.template finish<Param<T>>(2, n.dbeta);
}

template <class T>
void bhyt_forward(NormDims d, const NormForward& n, Acc<T> slope) {
  using A = Acc<T>;
  const T* x = n.x.data<T>();
  const Param<T>* gamma = n.gamma.data<Param<T>>();
  T* y = n.y.data<T>();
  for (std::int64_t r = 0; r < d.rows; ++r, x += d.cols, y += d.cols) {
    const A s = rms_scale(d, x), scale = slope * s;
    each_vector<A>(d.cols,
                   [&](auto c, auto k) { store(y + c, load(gamma + c, k) * tanh_any<A>(load(x + c, k) * scale), k); });
    n.rstd.data<A>()[r] = s;
  }
}

/// With x_hat = x rstd, t = tanh(slope x_hat) and du = dy gamma (1 - t^2):
/// dx = rstd slope (du - x_hat mean(du x_hat)). dgamma = sum of dy t, and of du x_hat = the gradient of slope.
template <class T, bool kAdd>
void bhyt_gradients(NormDims d, const NormBackward& n, Acc<T> slope, double kappa, const Gradient& dalpha) {
  using A = Acc<T>;
  RowAdder<A, 1> sums(Slot::c, d.cols);
  A* dus = scratch<A>(Slot::a, d.cols);
  const T *dy = n.dy.data<T>(), *x = n.x.data<T>();
  const Param<T>* gamma = n.gamma.data<Param<T>>();
  T* out = n.dx.to.data<T>();
  double of_slope = 0.0;
  for (std::int64_t r = 0; r < d.rows; ++r, dy += d.cols, x += d.cols) {
    const A s = n.rstd.data<A>()[r], scale = slope * s;
    Vec<A> of_uh{};
    each_vector<A>(d.cols, [&](auto c, auto k) {
      const Vec<A> up = load(dy + c, k), in = load(x + c, k), t = tanh_any<A>(in * scale);
      const Vec<A> du = up * load(gamma + c, k) * (1 - t * t);
      of_uh += du * (in * s);
      sums.add(0, c, up * t, k);
      store(dus + c, du, k);
    });
    sums.end_rows(1);
    const A sum_uh = lane_sum(of_uh), mean_uh = sum_uh / A(d.cols);
    of_slope += double(sum_uh);
    if (!out) continue;
    each_vector<A>(d.cols, [&](auto c, auto k) {
      put<kAdd>(out + c, scale * (load(dus + c, k) - load(x + c, k) * s * mean_uh), k);
    });
    out += d.cols;
  }
  if (dalpha) put(dalpha.to.data<Param<T>>()[0], A(of_slope / kappa), adds(dalpha));
  sums.template finish<Param<T>>(0, n.dgamma);
}

}  // namespace

void CpuBackend::seednorm(NormDims d, const NormForward& n, Tensor alpha, Tensor gates) {
  for_type("seednorm", n.x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    seednorm_forward<T>(d, n, alpha.data<Param<T>>(), gates.data<Acc<T>>());
  });
}

void CpuBackend::seednorm_backward(NormDims d, const NormBackward& n, Tensor alpha, Tensor beta, Tensor gates,
                                   Gradient dalpha) {
  for_type("seednorm_backward", n.x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    choose(adds(n.dx), [&](auto add) {
      seednorm_gradients<T, decltype(add)::value>(d, n, alpha.data<Param<T>>(), beta.data<Param<T>>(),
                                                  gates.data<Acc<T>>(), dalpha);
    });
  });
}

void CpuBackend::bhyt(NormDims d, double kappa, const NormForward& n, Tensor alpha) {
  for_type("bhyt", n.x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    bhyt_forward<T>(d, n, Acc<T>(double(alpha.data<Param<T>>()[0]) / kappa));
  });
}

void CpuBackend::bhyt_backward(NormDims d, double kappa, const NormBackward& n, Tensor alpha, Gradient dalpha) {
  for_type("bhyt_backward", n.x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    choose(adds(n.dx), [&](auto add) {
      bhyt_gradients<T, decltype(add)::value>(d, n, Acc<T>(double(alpha.data<Param<T>>()[0]) / kappa), kappa, dalpha);
    });
  });
}

}  // namespace normlab
