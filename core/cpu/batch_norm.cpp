// Batch norm over a batch that is cut into shards. Each shard sums its own images one at a time; the last to arrive
// adds the images of all shards in order, in double, so that neither the cut nor the number of threads changes a bit.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

/// What a shard brings to a meeting: one row of `cols` sums an image (and a second block of rows for the backward), and
/// where it wants the result, [groups, cols] each.
template <class A>
struct Part {
  std::int64_t images;
  const A* sums;
  const A* sums2;
  A* result;
  A* result2;
};

template <class A>
Part<A>& part_of(void* p) {
  return *static_cast<Part<A>*>(p);
}

/// total[g][c] = sum of the images' rows of group g, in image order over all shards; handed to finish(g, c, total,
/// images).
template <class A, class Finish>
void add_images(const BatchNormDims& d, std::span<void* const> parts, const A* Part<A>::*rows, Finish&& finish) {
  double* total = scratch<double>(Slot::d, d.cols);
  std::fill(total, total + d.cols, 0.0);
  std::int64_t image = 0, group = 0, in_group = 0;
  const auto close = [&] {
    for (std::int64_t c = 0; c < d.cols; ++c) finish(group, c, total[c], in_group);
    std::fill(total, total + d.cols, 0.0);
    ++group;
    in_group = 0;
  };
  for (void* p : parts) {
    const Part<A>& part = part_of<A>(p);
    for (std::int64_t i = 0; i < part.images; ++i, ++image) {
      const A* row = part.*rows + i * d.cols;
      for (std::int64_t c = 0; c < d.cols; ++c) total[c] += double(row[c]);
      if (++in_group == d.group_size()) close();
    }
  }
  if (in_group > 0) close();
}

template <class A>
void share(const BatchNormDims& d, std::span<void* const> parts, A* Part<A>::*result) {
  const A* first = part_of<A>(parts[0]).*result;
  for (std::size_t p = 1; p < parts.size(); ++p)
    std::copy(first, first + d.groups() * d.cols, part_of<A>(parts[p]).*result);
}

/// sums [images, cols]: over the rows of each image of term(row, c, group).
template <class A, class F>
void sum_images(const BatchNormDims& d, A* sums, F&& term) {
  std::memset(sums, 0, static_cast<std::size_t>(d.images * d.cols) * sizeof(A));
  for (std::int64_t i = 0; i < d.images; ++i) {
    const std::int64_t group = (d.first_image + i) / d.group_size();
    for (std::int64_t r = i * d.rows_per_image; r < (i + 1) * d.rows_per_image; ++r)
      for (std::int64_t c = 0; c < d.cols; ++c) sums[i * d.cols + c] += term(r * d.cols + c, c, group);
  }
}

template <class T>
void batch_norm_forward(BatchNormDims d, Collective& shards, const T* x, const Param<T>* gamma, const Param<T>* beta,
                        Param<T>* running_mean, Param<T>* running_var, T* y, Acc<T>* mean, Acc<T>* rstd) {
  using A = Acc<T>;
  A* sums = scratch<A>(Slot::a, d.images * d.cols);
  Part<A> part{d.images, sums, nullptr, mean, rstd};

  sum_images(d, sums, [&](auto i, auto, auto) { return A(x[i]); });
  shards.meet(&part, [&](std::span<void* const> parts) {
    A* out = part_of<A>(parts[0]).result;
    add_images<A>(d, parts, &Part<A>::sums, [&](auto g, auto c, double total, auto images) {
      const double m = total / double(images * d.rows_per_image);
      out[g * d.cols + c] = A(m);
      if (g == 0) running_mean[c] = Param<T>((1 - d.momentum) * double(running_mean[c]) + d.momentum * m);
    });
    share<A>(d, parts, &Part<A>::result);
  });

  sum_images(d, sums, [&](auto i, auto c, auto g) {
    const A centred = A(x[i]) - mean[g * d.cols + c];
    return centred * centred;
  });
  shards.meet(&part, [&](std::span<void* const> parts) {
    A* out = part_of<A>(parts[0]).result2;
    add_images<A>(d, parts, &Part<A>::sums, [&](auto g, auto c, double total, auto images) {
      const double n = double(images * d.rows_per_image);
      out[g * d.cols + c] = A(1.0 / std::sqrt(total / n + d.eps));
      if (g == 0) running_var[c] = Param<T>((1 - d.momentum) * double(running_var[c]) + d.momentum * total / (n - 1));
    });
    share<A>(d, parts, &Part<A>::result2);
  });

  for (std::int64_t i = 0; i < d.images; ++i) {
    const std::int64_t at = (d.first_image + i) / d.group_size() * d.cols;
    for (std::int64_t r = i * d.rows_per_image; r < (i + 1) * d.rows_per_image; ++r)
      for (std::int64_t c = 0; c < d.cols; ++c)
        y[r * d.cols + c] = T(gamma[c] * ((A(x[r * d.cols + c]) - mean[at + c]) * rstd[at + c]) + beta[c]);
  }
}

/// dx = gamma rstd (dy - mean(dy) - x_hat mean(dy x_hat)), means over all values of the channel in the group.
template <class T>
void batch_norm_gradients(BatchNormDims d, Collective& shards, const T* dy, const T* x, const Param<T>* gamma,
                          const Acc<T>* mean, const Acc<T>* rstd, Gradient dx, Gradient dgamma, Gradient dbeta) {
  using A = Acc<T>;
  const std::int64_t n = d.images * d.cols, m = d.groups() * d.cols;
  A *sums = scratch<A>(Slot::a, 2 * n), *means = scratch<A>(Slot::b, 2 * m);
  const auto x_hat = [&](std::int64_t i, std::int64_t c, std::int64_t g) {
    return (A(x[i]) - mean[g * d.cols + c]) * rstd[g * d.cols + c];
  };
  sum_images(d, sums, [&](auto i, auto, auto) { return A(dy[i]); });
  sum_images(d, sums + n, [&](auto i, auto c, auto g) { return A(dy[i]) * x_hat(i, c, g); });
  Part<A> part{d.images, sums, sums + n, means, means + m};
  shards.meet(&part, [&](std::span<void* const> parts) {
    const auto average = [&](const A* Part<A>::*rows, A* Part<A>::*result) {
      A* out = part_of<A>(parts[0]).*result;
      add_images<A>(d, parts, rows, [&](auto g, auto c, double total, auto images) {
        out[g * d.cols + c] = A(total / double(images * d.rows_per_image));
      });
      share<A>(d, parts, result);
    };
    average(&Part<A>::sums, &Part<A>::result);
    average(&Part<A>::sums2, &Part<A>::result2);
  });
  if (dx) {
    T* out = dx.to.data<T>();
    for (std::int64_t i = 0; i < d.images; ++i) {
      const std::int64_t g = (d.first_image + i) / d.group_size(), at = g * d.cols;
      for (std::int64_t r = i * d.rows_per_image; r < (i + 1) * d.rows_per_image; ++r)
        for (std::int64_t c = 0; c < d.cols; ++c) {
          const std::int64_t e = r * d.cols + c;
          put(out[e], gamma[c] * rstd[at + c] * (A(dy[e]) - means[at + c] - x_hat(e, c, g) * means[m + at + c]),
              adds(dx));
        }
    }
  }
  // This shard's share only: the lanes add the shares of all shards.
  sum_columns<Param<T>>(d.images, d.cols, Slot::c, dgamma, [&](auto i, auto c) { return sums[n + i * d.cols + c]; });
  sum_columns<Param<T>>(d.images, d.cols, Slot::c, dbeta, [&](auto i, auto c) { return sums[i * d.cols + c]; });
}

}  // namespace

void CpuBackend::batch_norm(BatchNormDims d, Collective& shards, Tensor x, Tensor gamma, Tensor beta,
                            Tensor running_mean, Tensor running_var, Tensor y, Tensor mean, Tensor rstd) {
  for_type("batch_norm", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    batch_norm_forward<T>(d, shards, x.data<T>(), gamma.data<Param<T>>(), beta.data<Param<T>>(),
                          running_mean.data<Param<T>>(), running_var.data<Param<T>>(), y.data<T>(), mean.data<Acc<T>>(),
                          rstd.data<Acc<T>>());
  });
}

void CpuBackend::batch_norm_backward(BatchNormDims d, Collective& shards, Tensor dy, Tensor x, Tensor gamma,
                                     Tensor mean, Tensor rstd, Gradient dx, Gradient dgamma, Gradient dbeta) {
  for_type("batch_norm", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    batch_norm_gradients<T>(d, shards, dy.data<T>(), x.data<T>(), gamma.data<Param<T>>(), mean.data<Acc<T>>(),
                            rstd.data<Acc<T>>(), dx, dgamma, dbeta);
  });
}

void CpuBackend::batch_norm_frozen(NormDims d, Tensor x, Tensor gamma, Tensor beta, Tensor running_mean,
                                   Tensor running_var, Tensor y) {
  for_type("batch_norm_frozen", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    const Param<T>*g = gamma.data<Param<T>>(), *b = beta.data<Param<T>>();
    const Param<T>*m = running_mean.data<Param<T>>(), *v = running_var.data<Param<T>>();
    A* factor = scratch<A>(Slot::a, d.cols);
    for (std::int64_t c = 0; c < d.cols; ++c) factor[c] = g[c] / std::sqrt(A(v[c]) + A(d.eps));
    const T* in = x.data<T>();
    T* out = y.data<T>();
    for (std::int64_t r = 0; r < d.rows; ++r)
      for (std::int64_t c = 0; c < d.cols; ++c)
        out[r * d.cols + c] = T(factor[c] * (A(in[r * d.cols + c]) - m[c]) + b[c]);
  });
}

void CpuBackend::batch_norm_frozen_backward(NormDims d, Tensor dy, Tensor x, Tensor gamma, Tensor running_mean,
                                            Tensor running_var, Gradient dx, Gradient dgamma, Gradient dbeta) {
  for_type("batch_norm_frozen", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    const Param<T>*g = gamma.data<Param<T>>(), *m = running_mean.data<Param<T>>(), *v = running_var.data<Param<T>>();
    A* rstd = scratch<A>(Slot::a, d.cols);
    for (std::int64_t c = 0; c < d.cols; ++c) rstd[c] = 1 / std::sqrt(A(v[c]) + A(d.eps));
    const T *up = dy.data<T>(), *in = x.data<T>();
    if (dx)
      for (std::int64_t r = 0; r < d.rows; ++r)
        for (std::int64_t c = 0; c < d.cols; ++c)
          put(dx.to.data<T>()[r * d.cols + c], A(up[r * d.cols + c]) * g[c] * rstd[c], adds(dx));
    sum_columns<Param<T>>(d.rows, d.cols, Slot::c, dgamma, [&](auto r, auto c) {
      return A(up[r * d.cols + c]) * ((A(in[r * d.cols + c]) - m[c]) * rstd[c]);
    });
    sum_columns<Param<T>>(d.rows, d.cols, Slot::c, dbeta, [&](auto r, auto c) { return A(up[r * d.cols + c]); });
  });
}

}  // namespace normlab
