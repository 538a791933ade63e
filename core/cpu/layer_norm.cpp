// LayerNorm and RMSNorm. Rows are normalised over the last axis. Each kernel passes over memory once: what it reads
// again of a row is still in the first-level cache.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

template <class T, bool kGain>
void layer_norm_forward(NormDims d, const T* x, const Param<T>* gamma, const Param<T>* beta, T* y, Acc<T>* mean,
                        Acc<T>* rstd) {
  using A = Acc<T>;
  for (std::int64_t r = 0; r < d.rows; ++r, x += d.cols, y += d.cols) {
    // Two passes: E[x^2] - E[x]^2 loses every digit once the mean dwarfs the spread.
    const A m = row_sum<A>(d.cols, [&](auto c, auto n) { return load(x + c, n); }) / A(d.cols);
    const A v = row_sum<A>(d.cols,
                           [&](auto c, auto n) {
                             const Vec<A> centred = first(load(x + c, n) - m, n);
                             return centred * centred;
                           }) /
                A(d.cols);
    const A s = 1 / std::sqrt(v + A(d.eps));
    each_vector<A>(d.cols, [&](auto c, auto n) {
      const Vec<A> x_hat = (load(x + c, n) - m) * s;
      if constexpr (!kGain) {
        store(y + c, x_hat, n);
      } else {
        Vec<A> scaled = load(gamma + c, n) * x_hat;
#if defined(__GNUC__) && !defined(__clang__)
        // The end of a row in bf16 is not fused: trainings on record have these bits.
        if constexpr (!std::is_same_v<T, A> && !std::is_same_v<decltype(n), AllLanes<A, kRowBytes>>)
          scaled = __builtin_assoc_barrier(scaled);
#endif
        store(y + c, scaled + load(beta + c, n), n);
      }
    });
    mean[r] = m;
    rstd[r] = s;
  }
}

/// dx = rstd (g - mean(g) - x_hat mean(g x_hat)), g = dy gamma; dgamma = sum of dy x_hat, dbeta = sum of dy over rows.
template <class T, bool kGain, bool kAdd>
void layer_norm_gradients(NormDims d, const T* dy, const T* x, const Param<T>* gamma, const Acc<T>* mean,
                          const Acc<T>* rstd, const Gradient& dx, const Gradient& dgamma, const Gradient& dbeta) {
  using A = Acc<T>;
  RowAdder<A, 2> sums(d.cols);
  T* out = dx.to.data<T>();
  for (std::int64_t r = 0; r < d.rows; ++r, dy += d.cols, x += d.cols) {
    const A m = mean[r], s = rstd[r];
    Vec<A> of_g{}, of_gh{};
    each_vector<A>(d.cols, [&](auto c, auto n) {
      const Vec<A> up = load(dy + c, n), h = (load(x + c, n) - m) * s, uph = up * h;
      if constexpr (kGain) {
        const Vec<A> g = load(gamma + c, n);
        of_g += up * g;
        of_gh += uph * g;
        sums.add(0, c, uph, n);
        sums.add(1, c, up, n);
      } else {
        of_g += up;
        of_gh += uph;
      }
    });
    if constexpr (kGain) sums.end_rows(1);
    if (!out) continue;
    const A mean_g = lane_sum(of_g) / A(d.cols), mean_gh = lane_sum(of_gh) / A(d.cols);
    each_vector<A>(d.cols, [&](auto c, auto n) {
      Vec<A> g = load(dy + c, n);
      if constexpr (kGain) g *= load(gamma + c, n);
      const Vec<A> h = (load(x + c, n) - m) * s;
      put<kAdd>(out + c, norm_dx(s, g, mean_g, h, mean_gh), n);
    });
    out += d.cols;
  }
  if constexpr (kGain) {
    sums.template finish<Param<T>>(0, dgamma);
    sums.template finish<Param<T>>(1, dbeta);
  }
}

template <class T>
void rms_norm_forward(NormDims d, const T* x, const Param<T>* gamma, T* y, Acc<T>* rstd) {
  using A = Acc<T>;
  for (std::int64_t r = 0; r < d.rows; ++r, x += d.cols, y += d.cols) {
    const A square = row_sum<A>(d.cols,
                                [&](auto c, auto n) {
                                  const Vec<A> v = load(x + c, n);
                                  return v * v;
                                }) /
                     A(d.mean_over());
    const A s = 1 / std::sqrt(square + A(d.eps));
    each_vector<A>(d.cols, [&](auto c, auto n) { store(y + c, load(gamma + c, n) * (load(x + c, n) * s), n); });
    rstd[r] = s;
  }
}

/// dx = rstd (g - x_hat mean(g x_hat)), g = dy gamma, x_hat = x rstd.
template <class T, bool kAdd>
void rms_norm_gradients(NormDims d, const T* dy, const T* x, const Param<T>* gamma, const Acc<T>* rstd,
                        const Gradient& dx, const Gradient& dgamma) {
  using A = Acc<T>;
  RowAdder<A, 1> sums(d.cols);
  T* out = dx.to.data<T>();
  for (std::int64_t r = 0; r < d.rows; ++r, dy += d.cols, x += d.cols) {
    const A s = rstd[r];
    Vec<A> of_gh{};
    each_vector<A>(d.cols, [&](auto c, auto n) {
      const Vec<A> uph = load(dy + c, n) * (load(x + c, n) * s);
      of_gh += uph * load(gamma + c, n);
      sums.add(0, c, uph, n);
    });
    sums.end_rows(1);
    if (!out) continue;
    const A mean_gh = lane_sum(of_gh) / A(d.mean_over());
    each_vector<A>(d.cols, [&](auto c, auto n) {
      put<kAdd>(out + c, s * (load(dy + c, n) * load(gamma + c, n) - load(x + c, n) * s * mean_gh), n);
    });
    out += d.cols;
  }
  sums.template finish<Param<T>>(0, dgamma);
}

}  // namespace

void CpuBackend::layer_norm(NormDims d, const NormForward& n) {
  for_type(n.mean ? "layer_norm" : "rms_norm", n.x.dtype(), [&]<class T>(Type<T>) {
    const T* x = n.x.data<T>();
    const Param<T>*g = n.gamma.data<Param<T>>(), *b = n.beta.data<Param<T>>();
    T* y = n.y.data<T>();
    Acc<T>*m = n.mean.data<Acc<T>>(), *s = n.rstd.data<Acc<T>>();
    if (!m) return rms_norm_forward<T>(d, x, g, y, s);
    choose(bool(g), [&](auto gain) { layer_norm_forward<T, decltype(gain)::value>(d, x, g, b, y, m, s); });
  });
}

void CpuBackend::layer_norm_backward(NormDims d, const NormBackward& n) {
  for_type(n.mean ? "layer_norm" : "rms_norm", n.x.dtype(), [&]<class T>(Type<T>) {
    const T *up = n.dy.data<T>(), *in = n.x.data<T>();
    const Param<T>* g = n.gamma.data<Param<T>>();
    const Acc<T>*m = n.mean.data<Acc<T>>(), *s = n.rstd.data<Acc<T>>();
    choose(adds(n.dx), [&](auto add) {
      constexpr bool kAdd = decltype(add)::value;
      if (!m) return rms_norm_gradients<T, kAdd>(d, up, in, g, s, n.dx, n.dgamma);
      choose(bool(g), [&](auto gain) {
        layer_norm_gradients<T, decltype(gain)::value, kAdd>(d, up, in, g, m, s, n.dx, n.dgamma, n.dbeta);
      });
    });
  });
}

}  // namespace normlab
