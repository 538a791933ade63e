// Batch norm over a batch that is cut into shards. Each shard takes the statistics of its images one at a time. The
// last shard to arrive combines all images in order, in double, so that neither the cut nor the number of threads
// changes a bit.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

/// Where a shard wants the two results of a meeting, [groups, cols] each. It contributes two rows of `cols` numbers per
/// image, [images, 2, cols].
template <class A>
struct Results {
  A* result[2];
};

template <class A>
const Results<A>& results_of(void* result) {
  return *static_cast<const Results<A>*>(result);
}

Collective::Bytes bytes_of(const double* numbers, std::int64_t count) {
  return std::as_bytes(std::span(numbers, static_cast<std::size_t>(count)));
}

/// Calls f(group, rows) for each group of the batch, where rows are the images' numbers in order over all shards. Then
/// copies the results from the first shard here to the others.
template <class A, class F>
void combine_groups(const BatchNormDims& d, std::span<const Collective::Bytes> all, std::span<void* const> here,
                    F&& f) {
  const Scratch<const double*> rows(d.group_size());
  std::int64_t group = 0, count = 0;
  const auto close = [&] {
    if (count > 0) f(group++, std::span<const double* const>(rows.begin(), static_cast<std::size_t>(count)));
    count = 0;
  };
  for (const Collective::Bytes& shard : all) {
    const std::span numbers(reinterpret_cast<const double*>(shard.data()), shard.size() / sizeof(double));
    for (std::size_t at = 0; at < numbers.size(); at += static_cast<std::size_t>(2 * d.cols)) {
      rows[count++] = numbers.data() + at;
      if (count == d.group_size()) close();
    }
  }
  close();
  for (void* result : here.subspan(1))
    for (const int k : {0, 1})
      std::copy_n(results_of<A>(here[0]).result[k], d.groups() * d.cols, results_of<A>(result).result[k]);
}

/// total[c] = sum of row[c] over the rows, in order.
void add_rows(std::span<const double* const> rows, std::int64_t offset, std::int64_t cols, double* total) {
  std::fill_n(total, cols, 0.0);
  for (const double* row : rows)
    for (std::int64_t c = 0; c < cols; ++c) total[c] += row[offset + c];
}

/// Calls f(r, k) for rows r .. r + k, where k is an integral constant: 4, so that data shared by all rows is read and
/// written once for four, then 1 for the rest. For rows in the cache; from memory, single rows stream faster.
template <class F>
[[gnu::always_inline]] inline void each_rows(std::int64_t rows, F&& f) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) f(r, std::integral_constant<int, 4>{});
  for (; r < rows; ++r) f(r, std::integral_constant<int, 1>{});
}

/// mean [cols] of `rows` rows and m2 [cols], the sum of squares about it. Never E[x^2] - E[x]^2: blocks of rows that
/// stay in the cache are summed, then centred, and combined as in Chan, Golub and LeVeque 1979, section 2. The first
/// sum rounds where the mean is large; the sum of the centred values corrects the centre.
template <class T>
void image_statistics(std::int64_t rows, std::int64_t cols, const T* x, double* mean, double* m2) {
  using A = Acc<T>;
  constexpr std::int64_t kBlockBytes = std::int64_t{1} << 17;
  const std::int64_t block = std::max<std::int64_t>(8, kBlockBytes / (cols * std::int64_t(sizeof(T))) / 8 * 8);
  const Scratch<A> centre(cols);
  for (std::int64_t begin = 0; begin < rows; begin += block) {
    const std::int64_t count = std::min(block, rows - begin);
    const T* first = x + begin * cols;
    const double n = double(count), before = double(begin), part = n / (before + n);
    RowAdder<A, 1> sums(cols);
    for (std::int64_t r = 0; r < count; ++r) {
      each_vector<A>(cols, [&](auto c, auto k) { sums.add(0, c, load(first + r * cols + c, k), k); });
      sums.end_rows(1);
    }
    const double* total = sums.total(0);
    for (std::int64_t c = 0; c < cols; ++c) centre[c] = A(total[c] / n);
    RowAdder<A, 2> centred(cols);
    each_rows(count, [&](std::int64_t r, auto k) {
      each_vector<A>(cols, [&](auto c, auto lanes) {
        const Vec<A> m = load(centre + c, lanes);
        Vec<A> sum{}, square_sum{};
        for (int j = 0; j < k; ++j) {
          const Vec<A> v = load(first + (r + j) * cols + c, lanes) - m;
          sum += v;
          square_sum += v * v;
        }
        centred.add(0, c, sum, lanes);
        centred.add(1, c, square_sum, lanes);
      });
      centred.end_rows(k);
    });
    const double *off = centred.total(0), *square = centred.total(1);
    for (std::int64_t c = 0; c < cols; ++c) {
      const double block_mean = double(centre[c]) + off[c] / n, block_m2 = square[c] - off[c] * off[c] / n;
      const double delta = begin ? block_mean - mean[c] : 0.0;
      mean[c] = begin ? mean[c] + delta * part : block_mean;
      m2[c] = (begin ? m2[c] : 0.0) + block_m2 + delta * delta * before * part;
    }
  }
}

template <class T>
void batch_norm_statistics(BatchNormDims d, Collective& shards, const T* x, Param<T>* running_mean,
                           Param<T>* running_var, Acc<T>* mean, Acc<T>* rstd) {
  using A = Acc<T>;
  const std::int64_t image_size = d.rows_per_image * d.cols;
  double* numbers = reinterpret_cast<double*>(shards.memory(std::size_t(d.images * 2 * d.cols) * sizeof(double)));
  for (std::int64_t i = 0; i < d.images; ++i)
    image_statistics(d.rows_per_image, d.cols, x + i * image_size, numbers + i * 2 * d.cols,
                     numbers + (i * 2 + 1) * d.cols);
  Results<A> results{{mean, rstd}};
  const auto combine = [&](std::span<const Collective::Bytes> all, std::span<void* const> here) {
    const Scratch<double> m(d.cols), m2(d.cols), new_mean(d.cols), new_var(d.cols);
    const Results<A>& out = results_of<A>(here[0]);
    combine_groups<A>(d, all, here, [&](std::int64_t group, std::span<const double* const> images) {
      // All images have the same number of rows, so the mean is that of their means.
      const double rows = double(d.rows_per_image), n = rows * double(images.size());
      add_rows(images, 0, d.cols, m);
      for (std::int64_t c = 0; c < d.cols; ++c) m[c] /= double(images.size());
      add_rows(images, d.cols, d.cols, m2);
      for (const double* image : images)
        for (std::int64_t c = 0; c < d.cols; ++c) m2[c] += rows * (image[c] - m[c]) * (image[c] - m[c]);
      for (std::int64_t c = 0; c < d.cols; ++c) {
        out.result[0][group * d.cols + c] = A(m[c]);
        out.result[1][group * d.cols + c] = A(1.0 / std::sqrt(m2[c] / n + d.eps));
      }
      if (group >= d.moving_groups()) return;
      const double share = d.share(group);
      for (std::int64_t c = 0; c < d.cols; ++c) {
        new_mean[c] = (group > 0 ? new_mean[c] : 0.0) + share * m[c];
        new_var[c] = (group > 0 ? new_var[c] : 0.0) + share * (m2[c] / (n - 1));
      }
    });
    const auto move = [&](Param<T>& running, double by) { running = Param<T>(d.carry() * double(running) + by); };
    for (std::int64_t c = 0; c < d.cols; ++c) {
      move(running_mean[c], new_mean[c]);
      move(running_var[c], new_var[c]);
    }
  };
  shards.meet(bytes_of(numbers, d.images * 2 * d.cols), &results, combine);
}

template <class T>
void batch_norm_apply(BatchNormDims d, const NormForward& args) {
  using A = Acc<T>;
  const T* x = args.x.data<T>();
  T* y = args.y.data<T>();
  const Param<T>*gamma = args.gamma.data<Param<T>>(), *beta = args.beta.data<Param<T>>();
  const A *mean = args.mean.data<A>(), *rstd = args.rstd.data<A>();
  const std::int64_t image_size = d.rows_per_image * d.cols;
  const Scratch<A> factor(d.cols);
  std::int64_t of_group = -1;
  for (std::int64_t i = 0; i < d.images; ++i) {
    const std::int64_t group = (d.first_image + i) / d.group_size();
    const A* m = mean + group * d.cols;
    if (group != of_group)
      for (std::int64_t c = 0; c < d.cols; ++c) factor[c] = gamma[c] * rstd[group * d.cols + c];
    of_group = group;
    for (std::int64_t e = i * image_size; e < (i + 1) * image_size; e += d.cols)
      each_vector<A>(d.cols, [&](auto c, auto n) {
        store(y + e + c, load(factor + c, n) * (load(x + e + c, n) - load(m + c, n)) + load(beta + c, n), n);
      });
  }
}

/// dx = gamma rstd (dy - mean(dy) - x_hat mean(dy x_hat)), means over all values of the channel in the group.
template <class T, bool kAdd>
void batch_norm_gradients(BatchNormDims d, Collective& shards, const NormBackward& args) {
  using A = Acc<T>;
  const T *dy = args.dy.data<T>(), *x = args.x.data<T>();
  const Param<T>* gamma = args.gamma.data<Param<T>>();
  const A *mean = args.mean.data<A>(), *rstd = args.rstd.data<A>();
  const std::int64_t image_size = d.rows_per_image * d.cols, m = d.groups() * d.cols;
  // For each image the sums of dy x_hat and of dy, then the means of both.
  const std::int64_t count = d.images * 2 * d.cols;
  double* numbers =
      reinterpret_cast<double*>(shards.memory(std::size_t(count) * sizeof(double) + std::size_t(2 * m) * sizeof(A)));
  A *mean_uph = reinterpret_cast<A*>(numbers + count), *mean_up = mean_uph + m;
  for (std::int64_t i = 0; i < d.images; ++i) {
    const std::int64_t at = (d.first_image + i) / d.group_size() * d.cols;
    RowAdder<A, 2> sums(d.cols);
    for (std::int64_t e = i * image_size; e < (i + 1) * image_size; e += d.cols) {
      each_vector<A>(d.cols, [&](auto c, auto n) {
        const Vec<A> up = load(dy + e + c, n);
        sums.add(0, c, up * ((load(x + e + c, n) - load(mean + at + c, n)) * load(rstd + at + c, n)), n);
        sums.add(1, c, up, n);
      });
      sums.end_rows(1);
    }
    std::copy_n(sums.total(0), d.cols, numbers + i * 2 * d.cols);
    std::copy_n(sums.total(1), d.cols, numbers + (i * 2 + 1) * d.cols);
  }
  Results<A> results{{mean_uph, mean_up}};
  const auto combine = [&](std::span<const Collective::Bytes> all, std::span<void* const> here) {
    const Scratch<double> total(d.cols);
    combine_groups<A>(d, all, here, [&](std::int64_t group, std::span<const double* const> images) {
      const double n = double(d.rows_per_image) * double(images.size());
      for (const int k : {0, 1}) {
        add_rows(images, k * d.cols, d.cols, total);
        A* out = results_of<A>(here[0]).result[k] + group * d.cols;
        for (std::int64_t c = 0; c < d.cols; ++c) out[c] = A(total[c] / n);
      }
    });
  };
  shards.meet(bytes_of(numbers, count), &results, combine);
  if (T* out = args.dx.to.data<T>()) {
    const Scratch<A> factor(d.cols), slope(d.cols);
    std::int64_t of_group = -1;
    for (std::int64_t i = 0; i < d.images; ++i) {
      const std::int64_t group = (d.first_image + i) / d.group_size(), at = group * d.cols;
      if (group != of_group)
        for (std::int64_t c = 0; c < d.cols; ++c) {
          factor[c] = gamma[c] * rstd[at + c];
          slope[c] = rstd[at + c] * mean_uph[at + c];
        }
      of_group = group;
      for (std::int64_t e = i * image_size; e < (i + 1) * image_size; e += d.cols)
        each_vector<A>(d.cols, [&](auto c, auto n) {
          const Vec<A> centred = load(x + e + c, n) - load(mean + at + c, n);
          const Vec<A> up = load(dy + e + c, n) - load(mean_up + at + c, n);
          put<kAdd>(out + e + c, load(factor + c, n) * (up - centred * load(slope + c, n)), n);
        });
    }
  }
  // Only this shard's share: the lanes add up the shares of all shards.
  const Scratch<double> total(d.cols);
  const auto share = [&](const Gradient& to, std::int64_t offset) {
    if (!to) return;
    std::fill_n(total.begin(), d.cols, 0.0);
    for (std::int64_t i = 0; i < d.images; ++i)
      for (std::int64_t c = 0; c < d.cols; ++c) total[c] += numbers[i * 2 * d.cols + offset + c];
    put_sums<Param<T>>(d.cols, total, to);
  };
  share(args.dgamma, 0);
  share(args.dbeta, d.cols);
}

template <class T, bool kAdd>
void batch_norm_frozen_gradients(NormDims d, const NormBackward& args, const Param<T>* mean, const Param<T>* var) {
  using A = Acc<T>;
  const T *dy = args.dy.data<T>(), *x = args.x.data<T>();
  const Param<T>* gamma = args.gamma.data<Param<T>>();
  const Scratch<A> rstd(d.cols), factor(d.cols);
  for (std::int64_t c = 0; c < d.cols; ++c) {
    rstd[c] = 1 / std::sqrt(A(var[c]) + A(d.eps));
    factor[c] = gamma[c] * rstd[c];
  }
  RowAdder<A, 2> sums(d.cols);
  T* out = args.dx.to.data<T>();
  for (std::int64_t e = 0; e < d.rows * d.cols; e += d.cols) {
    each_vector<A>(d.cols, [&](auto c, auto n) {
      const Vec<A> up = load(dy + e + c, n);
      sums.add(0, c, up * ((load(x + e + c, n) - load(mean + c, n)) * load(rstd + c, n)), n);
      sums.add(1, c, up, n);
      if (out) put<kAdd>(out + e + c, up * load(factor + c, n), n);
    });
    sums.end_rows(1);
  }
  sums.template finish<Param<T>>(0, args.dgamma);
  sums.template finish<Param<T>>(1, args.dbeta);
}

}  // namespace

void CpuBackend::batch_norm(BatchNormDims d, Collective& shards, const NormForward& n, Tensor running_mean,
                            Tensor running_var) {
  for_type("batch_norm", n.x.dtype(), [&]<class T>(Type<T>) {
    using P = Param<T>;
    batch_norm_statistics<T>(d, shards, n.x.data<T>(), running_mean.data<P>(), running_var.data<P>(),
                             n.mean.data<Acc<T>>(), n.rstd.data<Acc<T>>());
    batch_norm_apply<T>(d, n);
  });
}

void CpuBackend::batch_norm_again(BatchNormDims d, const NormForward& n) {
  for_type("batch_norm", n.x.dtype(), [&](auto type) { batch_norm_apply<typename decltype(type)::type>(d, n); });
}

void CpuBackend::batch_norm_backward(BatchNormDims d, Collective& shards, const NormBackward& n) {
  for_type("batch_norm", n.x.dtype(), [&]<class T>(Type<T>) {
    choose(adds(n.dx), [&](auto add) { batch_norm_gradients<T, decltype(add)::value>(d, shards, n); });
  });
}

void CpuBackend::batch_norm_frozen(NormDims d, Tensor x, Tensor gamma, Tensor beta, Tensor running_mean,
                                   Tensor running_var, Tensor y) {
  for_type("batch_norm_frozen", x.dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    const Param<T>*g = gamma.data<Param<T>>(), *b = beta.data<Param<T>>();
    const Param<T>*m = running_mean.data<Param<T>>(), *v = running_var.data<Param<T>>();
    const Scratch<A> factor(d.cols);
    for (std::int64_t c = 0; c < d.cols; ++c) factor[c] = g[c] / std::sqrt(A(v[c]) + A(d.eps));
    const T* in = x.data<T>();
    T* out = y.data<T>();
    for (std::int64_t e = 0; e < d.rows * d.cols; e += d.cols)
      each_vector<A>(d.cols, [&](auto c, auto n) {
        store(out + e + c, load(factor + c, n) * (load(in + e + c, n) - load(m + c, n)) + load(b + c, n), n);
      });
  });
}

void CpuBackend::batch_norm_frozen_backward(NormDims d, const NormBackward& n, Tensor running_mean,
                                            Tensor running_var) {
  for_type("batch_norm_frozen", n.x.dtype(), [&]<class T>(Type<T>) {
    choose(adds(n.dx), [&](auto add) {
      batch_norm_frozen_gradients<T, decltype(add)::value>(d, n, running_mean.data<Param<T>>(),
                                                           running_var.data<Param<T>>());
    });
  });
}

}  // namespace normlab
