// SeeDNorm, RMSNorm with a gain that depends on the row; BHyT is a formula. Rows are normalised over the last axis; what
// a kernel reads again of a row is still in the first-level cache.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

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
  RowAdder<A, 3> sums(d.cols);
  const Param<T>* gamma = n.gamma.data<Param<T>>();
  each_row_pair<A>(
      d.rows, d.cols, [&](std::int64_t first, auto rows) __attribute__((always_inline)) {
        constexpr int kRows = decltype(rows)::value;
        const T *dy = n.dy.data<T>() + first * d.cols, *x = n.x.data<T>() + first * d.cols;
        A s[kRows], gate[kRows];
        std::copy_n(n.rstd.data<A>() + first, kRows, s);
        std::copy_n(gates + first, kRows, gate);
        Vec<A> of_wh[kRows]{}, of_ah[kRows]{};
        each_vector<A>(d.cols, [&](auto c, auto k) {
          const Vec<A> g = load(gamma + c, k), a = load(alpha + c, k);
          Vec<A> uph[kRows], gated[kRows];
          for (int j = 0; j < kRows; ++j) {
            if constexpr (kRows > 1) prefetch_ahead(dy + j * d.cols + c, x + j * d.cols + c);
            uph[j] = load(dy + j * d.cols + c, k) * (load(x + j * d.cols + c, k) * s[j]);
            gated[j] = gate[j] * uph[j];
            of_wh[j] += uph[j] * (g + gate[j] * a);
            of_ah[j] += uph[j] * a;
          }
          sums.add(0, c, uph, k);
          sums.add(1, c, gated, k);
        });
        A mean_wh[kRows], of_dot[kRows];
        for (int j = 0; j < kRows; ++j) {
          mean_wh[j] = lane_sum(of_wh[j]) / A(d.cols);
          of_dot[j] = (1 - gate[j] * gate[j]) * lane_sum(of_ah[j]);
        }
        T* const out = n.dx ? n.dx.to.data<T>() + first * d.cols : nullptr;
        each_vector<A>(d.cols, [&](auto c, auto k) {
          const Vec<A> g = load(gamma + c, k), a = load(alpha + c, k), b = load(beta + c, k);
          Vec<A> in[kRows], of_beta[kRows];
          for (int j = 0; j < kRows; ++j) {
            in[j] = load(x + j * d.cols + c, k);
            of_beta[j] = of_dot[j] * in[j];
          }
          sums.add(2, c, of_beta, k);
          if (!out) return;
          for (int j = 0; j < kRows; ++j) {
            const Vec<A> w = g + gate[j] * a;
            put<kAdd>(out + j * d.cols + c,
                      s[j] * (load(dy + j * d.cols + c, k) * w - in[j] * s[j] * mean_wh[j]) + of_dot[j] * b, k);
          }
        });
        sums.end_rows(kRows);
      });
  sums.template finish<Param<T>>(0, n.dgamma);
  sums.template finish<Param<T>>(1, dalpha);
  sums.template finish<Param<T>>(2, n.dbeta);
}

}  // namespace

void CpuBackend::seednorm(NormDims d, const NormForward& n, Tensor alpha, Tensor gates) {
  for_type("seednorm", n.x.dtype(),
           [&]<class T>(Type<T>) { seednorm_forward<T>(d, n, alpha.data<Param<T>>(), gates.data<Acc<T>>()); });
}

void CpuBackend::seednorm_backward(NormDims d, const NormBackward& n, Tensor alpha, Tensor beta, Tensor gates,
                                   Gradient dalpha) {
  for_type("seednorm_backward", n.x.dtype(), [&]<class T>(Type<T>) {
    choose(adds(n.dx), [&](auto add) {
      seednorm_gradients<T, decltype(add)::value>(d, n, alpha.data<Param<T>>(), beta.data<Param<T>>(),
                                                  gates.data<Acc<T>>(), dalpha);
    });
  });
}

}  // namespace normlab
