// Norms without statistics: y = gamma phi(alpha x + shift) + beta, with phi bounded (core/kernel_settings.h). With tanh
// they are formulas.
#include <numbers>

#include "core/cpu/kernel.h"
#include "core/cpu/vector_exp.h"

namespace normlab {
using namespace cpu;
namespace {

using Phi = PointwisePhi;

/// Whether phi comes from a function of whole arrays; otherwise from phi_of().
template <Phi kPhi, class A>
constexpr bool kByArray = kPhi == Phi::atan || (kPhi == Phi::erf && std::is_same_v<A, double>);

template <class V>
[[gnu::always_inline]] inline V sqrt_of(V v) {
  for (std::size_t i = 0; i < sizeof(V) / sizeof(v[0]); ++i) v[i] = std::sqrt(v[i]);
  return v;
}
template <class V>
[[gnu::always_inline]] inline V abs_of(V v) {
  return v < 0 ? -v : v;
}
/// Keeps a square finite. Beyond this, u / sqrt(a + u^2) is 1 for every a in use.
template <class V>
[[gnu::always_inline]] inline V bounded(V u) {
  constexpr float kMost = 1e15f;
  return u > kMost ? V{} + kMost : u < -kMost ? V{} - kMost : u;
}

/// phi(u) for the functions that are computed in registers.
template <Phi kPhi, class A>
[[gnu::always_inline]] inline Vec<A> phi_of(Vec<A> u, A alpha) {
  if constexpr (kPhi == Phi::erf && std::is_same_v<A, float>) return erf_of(u);
  if constexpr (kPhi == Phi::isru || kPhi == Phi::dyisru) {
    const Vec<A> near = bounded(u);
    return near / sqrt_of(near * near + (kPhi == Phi::dyisru ? alpha : A(1)));
  }
  if constexpr (kPhi == Phi::softsign) return u / (1 + abs_of(u));
  if constexpr (kPhi == Phi::hardtanh) return u > 1 ? Vec<A>{} + 1 : u < -1 ? Vec<A>{} - 1 : u;
  return u;
}

/// phi'(u), where `exponential` is exp(-u^2), for erf only.
template <Phi kPhi, class A>
[[gnu::always_inline]] inline Vec<A> slope_of(Vec<A> u, Vec<A> exponential, A alpha) {
  if constexpr (kPhi == Phi::erf) return exponential * A(2 * std::numbers::inv_sqrtpi);
  if constexpr (kPhi == Phi::isru || kPhi == Phi::dyisru) {
    const Vec<A> near = bounded(u), inverse = 1 / (near * near + (kPhi == Phi::dyisru ? alpha : A(1)));
    return inverse * sqrt_of(inverse);
  }
  if constexpr (kPhi == Phi::softsign) {
    const Vec<A> inverse = 1 / (1 + abs_of(u));
    return inverse * inverse;
  }
  if constexpr (kPhi == Phi::atan) return A(2 / std::numbers::pi) / (1 + u * u);
  if constexpr (kPhi == Phi::hardtanh) return abs_of(u) < 1 ? Vec<A>{} + 1 : Vec<A>{};
}

/// alpha x + shift; for dyisru x, where alpha is under the root. A norm without a shift has -0, which changes no bit.
template <Phi kPhi, class A>
struct Argument {
  A alpha, shift;
  [[gnu::always_inline]] Vec<A> operator()(const Vec<A>& x) const {
    if constexpr (kPhi == Phi::dyisru) return x;
    return alpha * x + shift;
  }
};

/// What a value of phi is multiplied by.
template <Phi kPhi, class A>
A factor_of(std::int64_t cols) {
  return kPhi == Phi::dyisru ? std::sqrt(A(cols)) : kPhi == Phi::atan ? A(2 / std::numbers::pi) : A(1);
}
template <Phi kPhi, class A>
[[gnu::always_inline]] inline Vec<A> scaled(const Vec<A>& value, A factor) {
  if constexpr (kPhi == Phi::dyisru || kPhi == Phi::atan) return value * factor;
  return value;
}

/// phi of the values of a piece of a row, up to its factor: computed in registers, or read from where a function of
/// whole arrays left it. Likewise exp(-u^2), which only the slope of erf needs.
template <Phi kPhi, class Arg, class A>
struct Values {
  const Arg& argument;
  const A *t, *e;
  template <class L>
  [[gnu::always_inline]] Vec<A> operator()(std::int64_t i, const Vec<A>& x, L lanes) const {
    if constexpr (kByArray<kPhi, A>) return load(t + i, lanes);
    return phi_of<kPhi, A>(argument(x), argument.alpha);
  }
  template <class L>
  [[gnu::always_inline]] Vec<A> exponential(std::int64_t i, const Vec<A>& x, L lanes) const {
    if constexpr (kPhi != Phi::erf) {
      return Vec<A>{};
    } else if constexpr (kByArray<kPhi, A>) {
      return load(e + i, lanes);
    } else {
      const Vec<A> u = argument(x);
      return exp_nonpositive(-(u * u));
    }
  }
};

/// Calls f(r, count, c, n, values) for pieces of rows: n columns from c on of `count` rows from r on, where `count` is
/// a constant. An array function computes several short rows or a part of a long one at once, and its rows come one by
/// one. Otherwise two long rows come together.
template <class T, Phi kPhi, bool kSlopes, class Arg, class F>
[[gnu::always_inline]] inline void each_piece(std::int64_t rows, std::int64_t cols, const Arg& argument, const T* x,
                                              F&& f) {
  using A = Acc<T>;
  constexpr std::int64_t kPiece = 512;
  const std::int64_t width = std::min(cols, kPiece);
  if constexpr (kByArray<kPhi, A>) {
    constexpr bool kExp = kSlopes && kPhi == Phi::erf;
    const std::int64_t block = std::max<std::int64_t>(1, kPiece / cols);
    const Scratch<A> t(block * width);
    const Scratch<A> e(kExp ? block * width : 0);
    for (std::int64_t r = 0; r < rows; r += block)
      for (std::int64_t c = 0; c < cols; c += width) {
        const std::int64_t count = std::min(block, rows - r), columns = std::min(width, cols - c);
        const std::int64_t size = count * columns;
        const T* from = x + r * cols + c;
        each_vector<A>(size, [&](auto i, auto n) {
          const Vec<A> u = argument(load(from + i, n));
          store(t + i, u, n);
          if constexpr (kExp) store(e + i, -(u * u), n);
        });
        if constexpr (kPhi == Phi::erf) vector_erf(size, t, t);
        if constexpr (kPhi == Phi::atan) vector_atan(size, t, t);
        if constexpr (kExp) vector_exp(size, e, e);
        for (std::int64_t j = 0; j < count; ++j)
          f(r + j, std::integral_constant<int, 1>{}, c, columns,
            Values<kPhi, Arg, A>{argument, t + j * columns, kExp ? e + j * columns : nullptr});
      }
  } else {
    each_row_pair<A>(rows, cols, [&](std::int64_t r, auto count) {
      for (std::int64_t c = 0; c < cols; c += width)
        f(r, count, c, std::min(width, cols - c), Values<kPhi, Arg, A>{argument, nullptr, nullptr});
    });
  }
}

/// du = dy gamma phi'(u) is the gradient of u. dx = alpha du, dalpha = sum of du x, dshift = sum of du, dgamma = sum of
/// dy phi, dbeta = sum of dy. For dyisru, sqrt(C) x / sqrt(alpha + x^2), dx is alpha du too and dalpha is -1/2 of that
/// sum, with du = dy gamma sqrt(C) (alpha + x^2)^(-3/2).
template <class T, bool kAdd, Phi kPhi>
void gradients(const NormBackward& n, const Argument<kPhi, Acc<T>>& argument, const Gradient& dalpha,
               const Gradient& dshift) {
  using A = Acc<T>;
  const std::int64_t rows = n.x.shape().rows(), cols = n.x.shape().back();
  const T *dy = n.dy.data<T>(), *x = n.x.data<T>();
  const Param<T>* gamma = n.gamma.data<Param<T>>();
  const A alpha = argument.alpha, factor = factor_of<kPhi, A>(cols);
  RowAdder<A, 2> sums(cols);
  T* out = n.dx.to.data<T>();
  double of_alpha = 0.0, of_shift = 0.0;
  const auto piece = [&](std::int64_t r, auto count, std::int64_t begin, std::int64_t columns, const auto& phi) {
    constexpr int kRows = decltype(count)::value;
    Vec<A> alpha_piece{}, shift_piece{};
    each_vector<A>(columns, [&](auto c, auto k) {
      const Vec<A> gain = load(gamma + begin + c, k);
      Vec<A> of_gamma[kRows], up[kRows];
      for (int j = 0; j < kRows; ++j) {
        const std::int64_t at = (r + j) * cols + begin + c;
        if constexpr (kRows > 1) prefetch_ahead(dy + at, x + at);
        up[j] = load(dy + at, k);
        const Vec<A> in = load(x + at, k), value = phi(c, in, k);
        Vec<A> slope = slope_of<kPhi, A>(argument(in), phi.exponential(c, in, k), alpha);
        if constexpr (kPhi == Phi::dyisru) slope *= factor;
        const Vec<A> du = up[j] * gain * slope;
        alpha_piece += du * in;
        shift_piece += du;
        of_gamma[j] = up[j] * scaled<kPhi>(value, factor);
        if (out) put<kAdd>(out + at, alpha * du, k);
      }
      sums.add(0, begin + c, of_gamma, k);
      sums.add(1, begin + c, up, k);
    });
    of_alpha += double(lane_sum(alpha_piece));
    of_shift += double(lane_sum(shift_piece));
    if (begin + columns == cols) sums.end_rows(kRows);
  };
  each_piece<T, kPhi, true>(rows, cols, argument, x, piece);
  if constexpr (kPhi == Phi::dyisru) of_alpha *= -0.5;
  if (dalpha) put(dalpha.to.data<Param<T>>()[0], A(of_alpha), adds(dalpha));
  if (dshift) put(dshift.to.data<Param<T>>()[0], A(of_shift), adds(dshift));
  sums.template finish<Param<T>>(0, n.dgamma);
  sums.template finish<Param<T>>(1, n.dbeta);
}

/// Calls f with the argument of phi, whose type says phi.
template <class T, class F>
void with_argument(PointwisePhi phi, const Tensor& alpha, const Tensor& shift, const F& f) {
  using A = Acc<T>;
  const A a = alpha.data<Param<T>>()[0], s = shift ? A(shift.data<Param<T>>()[0]) : A(-0.0);
  for_pointwise_phi(phi, [&]<Phi kPhi>(std::integral_constant<Phi, kPhi>) {
    if constexpr (kPhi == Phi::tanh)
      return;
    else if constexpr (kPhi == Phi::dyisru)  // no root of a negative alpha: NaN ends the training
      f(Argument<kPhi, A>{a > 0 ? a : std::numeric_limits<A>::quiet_NaN(), s});
    else
      f(Argument<kPhi, A>{a, s});
  });
}

template <class T, Phi kPhi>
void forward(const Tensor& x, const Argument<kPhi, Acc<T>>& argument, const Tensor& gamma, const Tensor& beta,
             const Tensor& y) {
  using A = Acc<T>;
  const std::int64_t cols = x.shape().back();
  const Param<T>*g = gamma.data<Param<T>>(), *b = beta.data<Param<T>>();
  const A factor = factor_of<kPhi, A>(cols);
  const T* in = x.data<T>();
  T* out = y.data<T>();
  each_piece<T, kPhi, false>(
      x.shape().rows(), cols, argument, in,
      [&](std::int64_t r, auto count, std::int64_t begin, std::int64_t columns, const auto& phi) {
        each_vector<A>(columns, [&](auto c, auto n) {
          const Vec<A> gain = load(g + begin + c, n), bias = load(b + begin + c, n);
          for (int j = 0; j < count; ++j) {
            const std::int64_t at = (r + j) * cols + begin + c;
            if constexpr (decltype(count)::value > 1) prefetch_ahead(in + at);
            store(out + at, gain * scaled<kPhi>(phi(c, load(in + at, n), n), factor) + bias, n);
          }
        });
      });
}

}  // namespace

void CpuBackend::pointwise_norm(PointwisePhi phi, Tensor x, Tensor alpha, Tensor shift, Tensor gamma, Tensor beta,
                                Tensor y) {
  if (phi == Phi::tanh) return tanh_norm({.x = x, .gamma = gamma, .beta = beta, .y = y}, alpha, shift);
  for_type("pointwise_norm", x.dtype(), [&]<class T>(Type<T>) {
    with_argument<T>(phi, alpha, shift, [&](const auto& argument) { forward<T>(x, argument, gamma, beta, y); });
  });
}

void CpuBackend::pointwise_norm_backward(PointwisePhi phi, const NormBackward& n, Tensor alpha, Tensor shift,
                                         Gradient dalpha, Gradient dshift) {
  if (phi == Phi::tanh) return tanh_norm_backward(n, alpha, shift, dalpha, dshift);
  for_type("pointwise_norm_backward", n.x.dtype(), [&]<class T>(Type<T>) {
    with_argument<T>(phi, alpha, shift, [&](const auto& argument) {
      if (adds(n.dx))
        gradients<T, true>(n, argument, dalpha, dshift);
      else
        gradients<T, false>(n, argument, dalpha, dshift);
    });
  });
}

}  // namespace normlab
