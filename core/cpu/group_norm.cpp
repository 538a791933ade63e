// GroupNorm (Wu and He 2018, section 3): groups of neighbouring channels of an image, each normalised over its
// channels and all rows. Loops run along channels however narrow a group is: sums over rows are kept per channel and
// joined last.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

/// means[c] = the mean over c's group, from the sums over rows of its channels.
template <class A>
void group_means(GroupNormDims d, const double* sums, A* means) {
  const std::int64_t width = d.cols / d.groups;
  for (std::int64_t first = 0; first < d.cols; first += width) {
    double total = 0;
    for (std::int64_t c = first; c < first + width; ++c) total += sums[c];
    std::fill_n(means + first, width, A(total / double(d.rows * width)));
  }
}

/// For each channel, the means over its group in one image of K values. terms(e, c, n, add) contributes them by
/// add(k, v) for the n values from e on, which are in column c.
template <int K, class A, class F>
void image_means(GroupNormDims d, A* const (&means)[K], F&& terms) {
  RowAdder<A, K> sums(Slot::d, d.cols);
  for (std::int64_t r = 0; r < d.rows; ++r) {
    each_vector<A>(d.cols, [&](auto c, auto n) {
      terms(r * d.cols + c, c, n, [&](int k, const Vec<A>& v) { sums.add(k, c, v, n); });
    });
    sums.end_rows(1);
  }
  for (int k = 0; k < K; ++k) group_means(d, sums.total(k), means[k]);
}

template <class T>
void forward(GroupNormDims d, const NormForward& n) {
  using A = Acc<T>;
  const T* x = n.x.data<T>();
  const Param<T>*gamma = n.gamma.data<Param<T>>(), *beta = n.beta.data<Param<T>>();
  T* y = n.y.data<T>();
  A *mean = n.mean.data<A>(), *rstd = n.rstd.data<A>();
  A* const m = scratch<A>(Slot::a, 2 * d.cols);
  A* const s = m + d.cols;
  for (std::int64_t i = 0; i < d.images; ++i, x += d.rows * d.cols, y += d.rows * d.cols) {
    // Two passes: E[x^2] - E[x]^2 loses every digit once the mean dwarfs the spread.
    image_means<1, A>(d, {m}, [&](auto e, auto, auto k, auto add) { add(0, load(x + e, k)); });
    image_means<1, A>(d, {s}, [&](auto e, auto c, auto k, auto add) {
      const Vec<A> centred = load(x + e, k) - load(m + c, k);
      add(0, centred * centred);
    });
    for (std::int64_t c = 0; c < d.cols; ++c) s[c] = 1 / std::sqrt(s[c] + A(d.eps));
    for (std::int64_t r = 0; r < d.rows; ++r)
      each_vector<A>(d.cols, [&](auto c, auto k) {
        const Vec<A> x_hat = (load(x + r * d.cols + c, k) - load(m + c, k)) * load(s + c, k);
        store(y + r * d.cols + c, load(gamma + c, k) * x_hat + load(beta + c, k), k);
      });
    for (std::int64_t c = 0; c < d.cols; c += d.cols / d.groups) *mean++ = m[c], *rstd++ = s[c];
  }
}

/// As for LayerNorm, with the means over a group: dx = rstd (g - mean(g) - x_hat mean(g x_hat)), g = dy gamma.
template <class T>
void gradients(GroupNormDims d, const NormBackward& n) {
  using A = Acc<T>;
  const T *dy = n.dy.data<T>(), *x = n.x.data<T>();
  const Param<T>* gamma = n.gamma.data<Param<T>>();
  const A *mean = n.mean.data<A>(), *rstd = n.rstd.data<A>();
  const std::int64_t width = d.cols / d.groups, size = d.rows * d.cols;
  A* const m = scratch<A>(Slot::a, 4 * d.cols);
  A *const s = m + d.cols, *const mean_g = s + d.cols, *const mean_gh = mean_g + d.cols;
  RowAdder<A, 2> sums(Slot::c, d.cols);
  T* out = n.dx.to.data<T>();
  for (std::int64_t i = 0; i < d.images; ++i, dy += size, x += size) {
    for (std::int64_t c = 0; c < d.cols; c += width) {
      std::fill_n(m + c, width, *mean++);
      std::fill_n(s + c, width, *rstd++);
    }
    image_means<2, A>(d, {mean_g, mean_gh}, [&](auto e, auto c, auto k, auto add) {
      const Vec<A> up = load(dy + e, k), h = (load(x + e, k) - load(m + c, k)) * load(s + c, k);
      const Vec<A> g = up * load(gamma + c, k);
      add(0, g);
      add(1, g * h);
      sums.add(0, c, up * h, k);
      sums.add(1, c, up, k);
      if (c + k.count() == d.cols) sums.end_rows(1);  // the last vector of a row
    });
    if (!out) continue;
    choose(adds(n.dx), [&](auto add) {
      for (std::int64_t r = 0; r < d.rows; ++r)
        each_vector<A>(d.cols, [&](auto c, auto k) {
          const std::int64_t e = r * d.cols + c;
          const Vec<A> g = load(dy + e, k) * load(gamma + c, k), scale = load(s + c, k);
          const Vec<A> h = (load(x + e, k) - load(m + c, k)) * scale;
          put<decltype(add)::value>(out + e, scale * (g - load(mean_g + c, k) - h * load(mean_gh + c, k)), k);
        });
    });
    out += size;
  }
  sums.template finish<Param<T>>(0, n.dgamma);
  sums.template finish<Param<T>>(1, n.dbeta);
}

}  // namespace

void CpuBackend::group_norm(GroupNormDims d, const NormForward& n) {
  for_type("group_norm", n.x.dtype(), [&](auto type) { forward<typename decltype(type)::type>(d, n); });
}

void CpuBackend::group_norm_backward(GroupNormDims d, const NormBackward& n) {
  for_type("group_norm", n.x.dtype(), [&](auto type) { gradients<typename decltype(type)::type>(d, n); });
}

}  // namespace normlab
