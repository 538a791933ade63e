// Batch norm over a whole batch, which a device has in one shard: two passes over the values in blocks of rows, put
// together in double in a fixed order.
#include "cuda/column_sums.cuh"
#include "cuda/cuda_backend.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// The rows of a batch in groups of statistics, of which the last may be smaller. For sums a group takes up `padded`
/// rows, a whole number of chunks of column_sums.cuh, so that no chunk has rows of two groups.
struct Groups {
  std::int64_t rows, cols, count, group_rows, chunk_rows, chunks;  // chunks: of a group

  explicit Groups(const BatchNormDims& d)
      : rows(d.images * d.rows_per_image),
        cols(d.cols),
        count(d.groups()),
        group_rows(d.group_size() * d.rows_per_image),
        chunk_rows(rows_of_chunk(group_rows)),
        chunks(ceil_div(group_rows, chunk_rows)) {}
  std::int64_t all_chunks() const { return count * chunks; }
  __device__ std::int64_t padded() const { return chunks * chunk_rows; }
  __device__ std::int64_t group_of(std::int64_t row) const { return count == 1 ? 0 : row / group_rows; }
  __device__ std::int64_t size(std::int64_t group) const {
    const std::int64_t left = rows - group * group_rows;
    return left < group_rows ? left : group_rows;
  }
};

/// The K terms of `Terms` at a row of the padded groups; beyond the end of a group they are 0.
template <int K, class A, class Terms>
struct Padded {
  Groups groups;
  Terms terms;
  __device__ void operator()(std::int64_t padded_row, std::int64_t c, A (&values)[K]) const {
    const std::int64_t g = groups.count == 1 ? 0 : padded_row / groups.padded();
    const std::int64_t r = padded_row - g * groups.padded();
    if (r < groups.size(g))
      terms(g, (g * groups.group_rows + r) * groups.cols + c, c, values);
    else
      for (A& value : values) value = 0;
  }
};

/// x, and x - mean with its square.
template <class T>
struct Values {
  const T* x;
  __device__ void operator()(std::int64_t, std::int64_t i, std::int64_t, Acc<T> (&terms)[1]) const {
    terms[0] = Acc<T>(x[i]);
  }
};
template <class T>
struct Centred {
  std::int64_t cols;
  const T* x;
  const Acc<T>* mean;
  __device__ void operator()(std::int64_t g, std::int64_t i, std::int64_t c, Acc<T> (&terms)[2]) const {
    terms[0] = Acc<T>(x[i]) - mean[g * cols + c];
    terms[1] = terms[0] * terms[0];
  }
};
/// Of dgamma and dbeta: dy x_hat and dy.
template <class T>
struct BatchNormTerms {
  std::int64_t cols;
  const T *dy, *x;
  const Acc<T>*mean, *rstd;
  __device__ void operator()(std::int64_t g, std::int64_t i, std::int64_t c, Acc<T> (&terms)[2]) const {
    const Acc<T> up = Acc<T>(dy[i]);
    terms[0] = up * ((Acc<T>(x[i]) - mean[g * cols + c]) * rstd[g * cols + c]);
    terms[1] = up;
  }
};

/// The k-th sum of the group and column i = group cols + c, of partial [K, groups, chunks, cols].
__device__ double sum_of_group(const Groups& groups, const double* partial, int k, std::int64_t i) {
  const std::int64_t g = i / groups.cols, c = i % groups.cols;
  const double* first = partial + (k * groups.count + g) * groups.chunks * groups.cols + c;
  double total = 0;
  for (std::int64_t chunk = 0; chunk < groups.chunks; ++chunk) total += first[chunk * groups.cols];
  return total;
}

template <class A>
struct Centre {
  Groups groups;
  const double* partial;
  A* mean;
  __device__ void operator()(std::int64_t i) const {
    mean[i] = A(sum_of_group(groups, partial, 0, i) / double(groups.size(i / groups.cols)));
  }
};

/// Mean and rstd of a group; the running ones of the first. The sum of the centred values says how far the centre is
/// off, since it was rounded.
template <class A, class P>
struct Statistics {
  Groups groups;
  double eps, momentum;
  const double* partial;
  A *mean, *rstd;
  P *running_mean, *running_var;
  __device__ static void move(P& running, double momentum, double value) {
    running = P((1 - momentum) * double(running) + momentum * value);
  }
  __device__ void operator()(std::int64_t i) const {
    const double n = double(groups.size(i / groups.cols));
    const double off = sum_of_group(groups, partial, 0, i), square = sum_of_group(groups, partial, 1, i);
    const double m = double(mean[i]) + off / n, m2 = square - off * off / n;
    mean[i] = A(m);
    rstd[i] = A(1.0 / std::sqrt(m2 / n + eps));
    if (i >= groups.cols) return;
    move(running_mean[i], momentum, m);
    move(running_var[i], momentum, m2 / (n - 1));
  }
};

template <class T>
struct Normalise {
  Groups groups;
  const T* x;
  const Param<T>*gamma, *beta;
  const Acc<T>*mean, *rstd;
  T* y;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t r = i / groups.cols, c = i - r * groups.cols, at = groups.group_of(r) * groups.cols + c;
    y[i] = T(gamma[c] * rstd[at] * (Acc<T>(x[i]) - mean[at]) + beta[c]);
  }
};

/// means [2, groups, cols] of dy x_hat and dy.
struct MeansOfTerms {
  Groups groups;
  const double* partial;
  double* means;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t values = groups.count * groups.cols, k = i / values, at = i % values;
    means[i] = sum_of_group(groups, partial, static_cast<int>(k), at) / double(groups.size(at / groups.cols));
  }
};

/// dx = gamma rstd (dy - mean(dy) - x_hat mean(dy x_hat)), means over all values of the channel in the group.
template <class T>
struct BatchNormGradient {
  Groups groups;
  const T *dy, *x;
  const Param<T>* gamma;
  const Acc<T>*mean, *rstd;
  const double* means;
  T* dx;
  bool add;
  __device__ void operator()(std::int64_t i) const {
    using A = Acc<T>;
    const std::int64_t r = i / groups.cols, c = i - r * groups.cols, at = groups.group_of(r) * groups.cols + c;
    const A mean_uph = A(means[at]), mean_up = A(means[groups.count * groups.cols + at]);
    const A centred = A(x[i]) - mean[at], up = A(dy[i]) - mean_up;
    put(dx[i], gamma[c] * rstd[at] * (up - centred * (rstd[at] * mean_uph)), add);
  }
};

template <class T>
struct Frozen {
  NormDims d;
  const T* x;
  const Param<T>*gamma, *beta, *mean, *var;
  T* y;
  __device__ void operator()(std::int64_t i) const {
    using A = Acc<T>;
    const std::int64_t c = i % d.cols;
    y[i] = T(gamma[c] / std::sqrt(A(var[c]) + A(d.eps)) * (A(x[i]) - mean[c]) + beta[c]);
  }
};
template <class T>
struct FrozenGradient {
  NormDims d;
  const T* dy;
  const Param<T>*gamma, *var;
  T* dx;
  bool add;
  __device__ void operator()(std::int64_t i) const {
    using A = Acc<T>;
    const std::int64_t c = i % d.cols;
    put(dx[i], A(dy[i]) * (gamma[c] * (1 / std::sqrt(A(var[c]) + A(d.eps)))), add);
  }
};
template <class T>
struct FrozenTerms {
  NormDims d;
  const T *dy, *x;
  const Param<T>*mean, *var;
  __device__ void operator()(std::int64_t r, std::int64_t c, Acc<T> (&terms)[2]) const {
    using A = Acc<T>;
    const A up = A(dy[r * d.cols + c]), rstd = 1 / std::sqrt(A(var[c]) + A(d.eps));
    terms[0] = up * ((A(x[r * d.cols + c]) - mean[c]) * rstd);
    terms[1] = up;
  }
};

/// partial [K, groups, chunks, cols]: the sums of the terms over each chunk.
template <int K, class A, class Terms>
void sums_of_chunks(const char* op, const Groups& groups, Terms terms, double* partial, const Stream& stream) {
  using F = Padded<K, A, Terms>;
  launch(op, column_chunks<K, A, F>, {groups.all_chunks() * ceil_div(groups.cols, kWarp), kColumnThreads}, stream,
         groups.all_chunks() * groups.chunk_rows, groups.cols, groups.chunk_rows, F{groups, terms}, partial);
}

void require_whole_batch(const BatchNormDims& d, const Collective& shards) {
  if (shards.size() != 1 || d.images != d.batch)
    throw InputError(concat("batch_norm: a GPU has the whole batch at once, not ", d.images, " of ", d.batch,
                            " images in one of ", shards.size(), " shards"));
}

}  // namespace

void CudaBackend::batch_norm(BatchNormDims d, Collective& shards, Tensor x, Tensor gamma, Tensor beta,
                             Tensor running_mean, Tensor running_var, Tensor y, Tensor mean, Tensor rstd) {
  require_whole_batch(d, shards);
  for_type("batch_norm", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    using P = Param<T>;
    constexpr const char* op = "batch_norm";
    const Groups groups(d);
    const std::int64_t statistics = groups.count * d.cols;
    const T* in = x.data<T>();
    A *m = mean.data<A>(), *s = rstd.data<A>();
    double* partial = partial_.get<double>(2 * groups.all_chunks() * d.cols);
    sums_of_chunks<1, A>(op, groups, Values<T>{in}, partial, stream_);
    each_element(op, statistics, stream_, Centre<A>{groups, partial, m});
    sums_of_chunks<2, A>(op, groups, Centred<T>{d.cols, in, m}, partial, stream_);
    each_element(
        op, statistics, stream_,
        Statistics<A, P>{groups, d.eps, d.momentum, partial, m, s, running_mean.data<P>(), running_var.data<P>()});
    each_element(op, x.size(), stream_, Normalise<T>{groups, in, gamma.data<P>(), beta.data<P>(), m, s, y.data<T>()});
  });
}

void CudaBackend::batch_norm_backward(BatchNormDims d, Collective& shards, Tensor dy, Tensor x, Tensor gamma,
                                      Tensor mean, Tensor rstd, Gradient dx, Gradient dgamma, Gradient dbeta) {
  require_whole_batch(d, shards);
  for_type("batch_norm", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    using P = Param<T>;
    constexpr const char* op = "batch_norm_backward";
    const Groups groups(d);
    const std::int64_t statistics = groups.count * d.cols, sums = groups.all_chunks() * d.cols;
    const T *up = dy.data<T>(), *in = x.data<T>();
    const A *m = mean.data<A>(), *s = rstd.data<A>();
    double *partial = partial_.get<double>(2 * sums + 2 * statistics), *means = partial + 2 * sums;
    sums_of_chunks<2, A>(op, groups, BatchNormTerms<T>{d.cols, up, in, m, s}, partial, stream_);
    if (dx) {
      each_element(op, 2 * statistics, stream_, MeansOfTerms{groups, partial, means});
      each_element(op, x.size(), stream_,
                   BatchNormGradient<T>{groups, up, in, gamma.data<P>(), m, s, means, dx.to.data<T>(), adds(dx)});
    }
    finish_sums<2, P>(op, groups.all_chunks(), d.cols, partial, {dgamma, dbeta}, stream_);
  });
}

void CudaBackend::batch_norm_frozen(NormDims d, Tensor x, Tensor gamma, Tensor beta, Tensor running_mean,
                                    Tensor running_var, Tensor y) {
  for_type("batch_norm_frozen", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using P = Param<T>;
    each_element("batch_norm_frozen", x.size(), stream_,
                 Frozen<T>{d, x.data<T>(), gamma.data<P>(), beta.data<P>(), running_mean.data<P>(),
                           running_var.data<P>(), y.data<T>()});
  });
}

void CudaBackend::batch_norm_frozen_backward(NormDims d, Tensor dy, Tensor x, Tensor gamma, Tensor running_mean,
                                             Tensor running_var, Gradient dx, Gradient dgamma, Gradient dbeta) {
  for_type("batch_norm_frozen", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using P = Param<T>;
    constexpr const char* op = "batch_norm_frozen_backward";
    const T* up = dy.data<T>();
    const P* var = running_var.data<P>();
    if (dx)
      each_element(op, x.size(), stream_, FrozenGradient<T>{d, up, gamma.data<P>(), var, dx.to.data<T>(), adds(dx)});
    column_sums<2, Acc<T>, P>(op, d.rows, d.cols, FrozenTerms<T>{d, up, x.data<T>(), running_mean.data<P>(), var},
                              {dgamma, dbeta}, partial_, stream_);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
