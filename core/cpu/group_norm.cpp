// GroupNorm (Wu and He 2018, section 3): groups of neighbouring channels of an image, each normalised over its
// channels and all rows. Loops run along channels however narrow a group is: sums over rows are kept per channel and
// joined last.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

/// Whole groups of an image: `cols` channels from `first` on. Small enough to stay in the second-level cache, since
/// they are read several times. The next strip begins `next` values after this one.
struct Strip {
  std::int64_t rows, stride, first, cols, width, next;
};

/// Into the second-level cache, while the results of this strip go to memory.
[[gnu::always_inline]] inline void prefetch_next(const void* p) noexcept { __builtin_prefetch(p, 0, 3); }

/// Calls f(strip) for the parts of an image of `tensors` tensors.
template <class T, class F>
void each_strip(GroupNormDims d, int tensors, F&& f) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 18, kVector = kLanes<Acc<T>, kRowBytes>;
  const std::int64_t width = d.cols / d.groups;
  const std::int64_t fitting = kBytes / (tensors * d.rows * std::int64_t(sizeof(T)));
  const std::int64_t cols = std::max<std::int64_t>(fitting / kVector * kVector, kVector);
  const std::int64_t step = std::max<std::int64_t>(cols / width, 1) * width;
  for (std::int64_t c = 0; c < d.cols; c += step) {
    const bool last = c + step >= d.cols;
    f(Strip{d.rows, d.cols, c, std::min(step, d.cols - c), width, last ? d.rows * d.cols - c : step});
  }
}

/// [K, cols] sums over the rows of K values, in `total`, by the rule of sum_columns(). terms(e, c, n, add) contributes them by
/// add(k, v) for the n values from e on, which are in column c of the strip.
template <int K, class A, class F>
void strip_sums(const Strip& strip, double* total, F&& terms) {
  constexpr std::int64_t kRows = 8;
  std::fill_n(total, K * strip.cols, 0.0);
  // `rows` is a function that calls another one for each of a few rows.
  const auto add_rows = [&](auto&& rows) {
    each_vector<A>(strip.cols, [&](auto c, auto n) {
      std::array<Vec<A>, K> few{};
      rows([&](std::int64_t r) {
        terms(r * strip.stride + c, c, n, [&](int k, const Vec<A>& v) { few[std::size_t(k)] += v; });
      });
      for (int k = 0; k < K; ++k) add_to_doubles(total + k * strip.cols + c, few[std::size_t(k)], n);
    });
  };
  std::int64_t first = 0;
  for (; first + kRows <= strip.rows; first += kRows)
    add_rows([&](auto&& row) {  // without a loop: the processor then prefetches each row by itself
      [&]<std::int64_t... j>(std::integer_sequence<std::int64_t, j...>) { (row(first + j), ...); }
      (std::make_integer_sequence<std::int64_t, kRows>{});
    });
  if (first < strip.rows)
    add_rows([&](auto&& row) {
      for (std::int64_t r = first; r < strip.rows; ++r) row(r);
    });
}

/// means[c] = the mean over c's group, where term(c) is the sum over rows of its channel.
template <class A, class F>
void group_means(const Strip& strip, A* means, F&& term) {
  for (std::int64_t first = 0; first < strip.cols; first += strip.width) {
    double total = 0;
    for (std::int64_t c = first; c < first + strip.width; ++c) total += term(c);
    std::fill_n(means + first, strip.width, A(total / double(strip.rows * strip.width)));
  }
}

template <class T>
void forward(GroupNormDims d, const NormForward& n) {
  using A = Acc<T>;
  A *mean = n.mean.data<A>(), *rstd = n.rstd.data<A>();
  const Scratch<A> m(d.cols), s(d.cols);
  const Scratch<double> total(d.cols);
  for (std::int64_t i = 0; i < d.images; ++i)
    each_strip<T>(d, 1, [&](const Strip& strip) {
      const std::int64_t at = i * d.rows * d.cols + strip.first;
      const T* x = n.x.data<T>() + at;
      T* y = n.y.data<T>() + at;
      const Param<T>*gamma = n.gamma.data<Param<T>>() + strip.first, *beta = n.beta.data<Param<T>>() + strip.first;
      const auto means = [&](A* to, auto&& terms) {
        strip_sums<1, A>(strip, total, terms);
        group_means(strip, to, [&](std::int64_t c) { return total[c]; });
      };
      // Two passes: E[x^2] - E[x]^2 loses every digit once the mean dwarfs the spread.
      means(m, [&](auto e, auto, auto k, auto add) { add(0, load(x + e, k)); });
      means(s, [&](auto e, auto c, auto k, auto add) {
        const Vec<A> centred = load(x + e, k) - load(m + c, k);
        add(0, centred * centred);
      });
      for (std::int64_t c = 0; c < strip.cols; ++c) s[c] = 1 / std::sqrt(s[c] + A(d.eps));
      for (std::int64_t r = 0; r < strip.rows; ++r)
        each_vector<A>(strip.cols, [&](auto c, auto k) {
          const std::int64_t e = r * strip.stride + c;
          const Vec<A> x_hat = (load(x + e, k) - load(m + c, k)) * load(s + c, k);
          prefetch_next(x + e + strip.next);
          store(y + e, load(gamma + c, k) * x_hat + load(beta + c, k), k);
        });
      for (std::int64_t c = 0; c < strip.cols; c += strip.width) *mean++ = m[c], *rstd++ = s[c];
    });
}

/// As for LayerNorm, with the means over a group: dx = rstd (g - mean(g) - x_hat mean(g x_hat)), g = dy gamma. The sums
/// of dy x_hat and dy over an image's rows give dgamma, dbeta and, times gamma, both means.
template <class T, bool kAdd>
void gradients(GroupNormDims d, const NormBackward& n) {
  using A = Acc<T>;
  const A *mean = n.mean.data<A>(), *rstd = n.rstd.data<A>();
  const Scratch<A> m(d.cols), s(d.cols), mean_g(d.cols), mean_gh(d.cols);
  const Scratch<double> of_gamma(2 * d.cols), uph(2 * d.cols);
  double* const of_beta = of_gamma + d.cols;
  std::fill_n(of_gamma.begin(), 2 * d.cols, 0.0);
  for (std::int64_t i = 0; i < d.images; ++i)
    each_strip<T>(d, 2, [&](const Strip& strip) {
      const std::int64_t at = i * d.rows * d.cols + strip.first;
      const T *dy = n.dy.data<T>() + at, *x = n.x.data<T>() + at;
      const Param<T>* gamma = n.gamma.data<Param<T>>() + strip.first;
      for (std::int64_t c = 0; c < strip.cols; c += strip.width) {
        std::fill_n(m + c, strip.width, *mean++);
        std::fill_n(s + c, strip.width, *rstd++);
      }
      strip_sums<2, A>(strip, uph, [&](auto e, auto c, auto k, auto add) {
        const Vec<A> up = load(dy + e, k);
        add(0, up * ((load(x + e, k) - load(m + c, k)) * load(s + c, k)));
        add(1, up);
      });
      const double* const up = uph + strip.cols;
      for (std::int64_t c = 0; c < strip.cols; ++c) {
        of_gamma[strip.first + c] += uph[c];
        of_beta[strip.first + c] += up[c];
      }
      if (!n.dx) return;
      group_means(strip, mean_g.begin(), [&](std::int64_t c) { return up[c] * double(gamma[c]); });
      group_means(strip, mean_gh.begin(), [&](std::int64_t c) { return uph[c] * double(gamma[c]); });
      T* dx = n.dx.to.data<T>() + at;
      for (std::int64_t r = 0; r < strip.rows; ++r)
        each_vector<A>(strip.cols, [&](auto c, auto k) {
          const std::int64_t e = r * strip.stride + c;
          const Vec<A> g = load(dy + e, k) * load(gamma + c, k), scale = load(s + c, k);
          const Vec<A> h = (load(x + e, k) - load(m + c, k)) * scale;
          prefetch_next(dy + e + strip.next);
          prefetch_next(x + e + strip.next);
          put<kAdd>(dx + e, norm_dx(scale, g, load(mean_g + c, k), h, load(mean_gh + c, k)), k);
        });
    });
  if (n.dgamma) put_sums<Param<T>>(d.cols, of_gamma, n.dgamma);
  if (n.dbeta) put_sums<Param<T>>(d.cols, of_beta, n.dbeta);
}

}  // namespace

void CpuBackend::group_norm(GroupNormDims d, const NormForward& n) {
  for_type("group_norm", n.x.dtype(), [&](auto type) { forward<typename decltype(type)::type>(d, n); });
}

void CpuBackend::group_norm_backward(GroupNormDims d, const NormBackward& n) {
  for_type("group_norm", n.x.dtype(), [&](auto type) {
    choose(adds(n.dx), [&](auto add) { gradients<typename decltype(type)::type, decltype(add)::value>(d, n); });
  });
}

}  // namespace normlab
