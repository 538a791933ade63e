// Batch norm over a whole batch, which is one shard on a device: two passes over the values in blocks of rows, combined
// in double in a fixed order.
#include "cuda/cuda_backend.h"
#include "cuda/vector_sums.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// The rows of a batch in groups of statistics, and the number of their partial sums.
struct Groups : Parts {
  std::int64_t chunk_rows, chunks;  // chunks: per group

  explicit Groups(const BatchNormDims& d)
      : Parts(d.images * d.rows_per_image, d.cols, d.group_size() * d.rows_per_image, d.groups()),
        chunk_rows(rows_of_chunk(part_rows)),
        chunks(ceil_div(part_rows, chunk_rows)) {}
  std::int64_t all_chunks() const { return count * chunks; }
};

/// Terms x, and x - mean with its square.
template <class T>
struct Values {
  const T* x;
  template <int V>
  __device__ void operator()(SumRun<1, V, Acc<T>>& run) const {
    run.each(
        [&](std::int64_t, const T(&in)[V], Acc<T>(&terms)[1][V]) {
          for (int k = 0; k < V; ++k) terms[0][k] = Acc<T>(in[k]);
        },
        x);
  }
};
template <class T>
struct Centred {
  std::int64_t cols;
  const T* x;
  const Acc<T>* mean;
  template <int V>
  __device__ void operator()(SumRun<2, V, Acc<T>>& run) const {
    Acc<T> m[V];
    load(mean + run.part * cols + run.column, m);
    run.each(
        [&](std::int64_t, const T(&in)[V], Acc<T>(&terms)[2][V]) {
          for (int k = 0; k < V; ++k) {
            terms[0][k] = Acc<T>(in[k]) - m[k];
            terms[1][k] = terms[0][k] * terms[0][k];
          }
        },
        x);
  }
};
/// Terms of dgamma and dbeta: dy x_hat and dy.
template <class T>
struct BatchNormTerms {
  std::int64_t cols;
  const T *dy, *x;
  const Acc<T>*mean, *rstd;
  template <int V>
  __device__ void operator()(SumRun<2, V, Acc<T>>& run) const {
    Acc<T> m[V], s[V];
    load(mean + run.part * cols + run.column, m);
    load(rstd + run.part * cols + run.column, s);
    run.each(
        [&](std::int64_t, const T(&dys)[V], const T(&in)[V], Acc<T>(&terms)[2][V]) {
          for (int k = 0; k < V; ++k) {
            const Acc<T> up = Acc<T>(dys[k]);
            terms[0][k] = up * ((Acc<T>(in[k]) - m[k]) * s[k]);
            terms[1][k] = up;
          }
        },
        dy, x);
  }
};

/// The k-th sum of group g and column c of partial [K, groups, chunks, cols]. All threads of a block must call this.
__device__ double sum_of_group(const Groups& groups, const double* partial, int k, std::int64_t g, std::int64_t c) {
  const double* first = partial + (k * groups.count + g) * groups.chunks * groups.cols + c;
  return sum_of_chunks(groups.chunks, groups.cols, first, c < groups.cols);
}
/// One group per row of tiles.
Launch a_group_a_row(const Groups& groups) { return {groups.count * ceil_div(groups.cols, kWarp), kColumnThreads}; }

template <class A>
__global__ void __launch_bounds__(kColumnThreads) centre(Groups groups, const double* partial, A* mean) {
  const TileColumn at(groups.cols);
  const double sum = sum_of_group(groups, partial, 0, at.row, at.c);
  if (at.writes(groups.cols)) mean[at.row * groups.cols + at.c] = A(sum / double(groups.size(at.row)));
}

template <class P>
__device__ void move(P& running, double kept, double by) {
  running = P(kept * double(running) + by);
}
/// Mean and rstd of all groups, and the running ones, which need the groups in order. The rounded centre is corrected
/// by the sum of the centred values. The grid is one row of tiles.
template <class A, class P>
__global__ void __launch_bounds__(kColumnThreads) statistics(Groups groups, BatchNormDims d, const double* partial,
                                                             A* mean, A* rstd, P* running_mean, P* running_var) {
  const TileColumn at(groups.cols);
  double new_mean = 0, new_var = 0;
  for (std::int64_t g = 0; g < groups.count; ++g) {
    const double off = sum_of_group(groups, partial, 0, g, at.c), square = sum_of_group(groups, partial, 1, g, at.c);
    if (!at.writes(groups.cols)) continue;
    const std::int64_t i = g * groups.cols + at.c;
    const double n = double(groups.size(g)), m = double(mean[i]) + off / n, m2 = square - off * off / n;
    mean[i] = A(m);
    rstd[i] = A(1.0 / std::sqrt(m2 / n + d.eps));
    if (g >= d.moving_groups()) continue;
    new_mean += d.share(g) * m;
    new_var += d.share(g) * (m2 / (n - 1));
  }
  if (!at.writes(groups.cols)) return;
  move(running_mean[at.c], d.kept(), new_mean);
  move(running_var[at.c], d.kept(), new_var);
}

/// y = factor (x - mean) + beta over a run.
template <int V, class T, class A>
__device__ void normalise(const Run<V>& run, const T* x, const A (&factor)[V], const A (&mean)[V], const A (&beta)[V],
                          T* y) {
  run.each(
      [&](std::int64_t at, const T(&in)[V]) {
        A out[V];
        for (int k = 0; k < V; ++k) out[k] = factor[k] * (A(in[k]) - mean[k]) + beta[k];
        put_all(y + at, out);
      },
      x);
}

template <class T>
struct Normalise {
  std::int64_t cols;
  const T* x;
  const Param<T>*gamma, *beta;
  const Acc<T>*mean, *rstd;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    using A = Acc<T>;
    Param<T> b[V];
    A m[V], s[V], factor[V];
    load(gamma + run.column, factor);
    load(beta + run.column, b);
    load(mean + run.part * cols + run.column, m);
    load(rstd + run.part * cols + run.column, s);
    for (int k = 0; k < V; ++k) factor[k] *= s[k];
    normalise(run, x, factor, m, b, y);
  }
};

/// The means [2, groups, cols] of dy x_hat and dy for each group; their sums over the groups are dgamma and dbeta. The
/// grid is two rows of tiles.
template <class P>
__global__ void __launch_bounds__(kColumnThreads)
    means_of_terms(Groups groups, const double* partial, P* means, SumsTo<2, P> of) {
  const TileColumn at(groups.cols);
  const int k = static_cast<int>(at.row);
  double total = 0;
  for (std::int64_t g = 0; g < groups.count; ++g) {
    const double sum = sum_of_group(groups, partial, k, g, at.c);
    if (at.writes(groups.cols)) means[(k * groups.count + g) * groups.cols + at.c] = P(sum / double(groups.size(g)));
    total += sum;
  }
  const auto one = of.at(at.row);
  if (one.to && at.writes(groups.cols)) put(one.to[at.c], P(total), one.add);
}

/// dx = gamma rstd (dy - mean(dy) - x_hat mean(dy x_hat)), means over all values of the channel in the group.
template <class T>
struct BatchNormGradient {
  Groups groups;
  const T *dy, *x;
  const Param<T>* gamma;
  const Acc<T>*mean, *rstd, *means;
  T* dx;
  bool add;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    using A = Acc<T>;
    const std::int64_t at_statistics = run.part * groups.cols + run.column;
    A factor[V], m[V], s[V], mean_up[V], slope[V];
    load(gamma + run.column, factor);
    load(mean + at_statistics, m);
    load(rstd + at_statistics, s);
    load(means + at_statistics, slope);
    load(means + groups.count * groups.cols + at_statistics, mean_up);
    for (int k = 0; k < V; ++k) {
      factor[k] *= s[k];
      slope[k] *= s[k];
    }
    run.each(
        [&](std::int64_t at, const T(&dys)[V], const T(&in)[V]) {
          A out[V];
          for (int k = 0; k < V; ++k) out[k] = factor[k] * ((A(dys[k]) - mean_up[k]) - (A(in[k]) - m[k]) * slope[k]);
          put_all(dx + at, out, add);
        },
        dy, x);
  }
};

template <class T>
struct Frozen {
  double eps;
  const T* x;
  const Param<T>*gamma, *beta, *mean, *var;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    using A = Acc<T>;
    Param<T> g[V], b[V], m[V], v[V];
    A factor[V];
    load(gamma + run.column, g);
    load(beta + run.column, b);
    load(mean + run.column, m);
    load(var + run.column, v);
    for (int k = 0; k < V; ++k) factor[k] = g[k] / std::sqrt(A(v[k]) + A(eps));
    normalise(run, x, factor, m, b, y);
  }
};
/// dx, and on the way the sums of dy x_hat and dy.
template <class T>
struct FrozenGradient {
  double eps;
  const T *dy, *x;
  const Param<T>*gamma, *mean, *var;
  T* dx;
  bool add;
  template <int V>
  __device__ void operator()(SumRun<2, V, Acc<T>>& run) const {
    using A = Acc<T>;
    Param<T> g[V], m[V], v[V];
    A rstd[V];
    load(gamma + run.column, g);
    load(mean + run.column, m);
    load(var + run.column, v);
    for (int k = 0; k < V; ++k) rstd[k] = 1 / std::sqrt(A(v[k]) + A(eps));
    run.each(
        [&](std::int64_t at, const T(&dys)[V], const T(&in)[V], A(&terms)[2][V]) {
          A out[V];
          for (int k = 0; k < V; ++k) {
            const A up = A(dys[k]);
            terms[0][k] = up * ((A(in[k]) - m[k]) * rstd[k]);
            terms[1][k] = up;
            out[k] = up * (g[k] * rstd[k]);
          }
          if (dx) put_all(dx + at, out, add);
        },
        dy, x);
  }
};

void require_whole_batch(const BatchNormDims& d, const Collective& shards) {
  if (shards.size() != 1 || d.images != d.batch)
    throw InputError(concat("batch_norm: a GPU needs the whole batch in one shard, not ", d.images, " of ", d.batch,
                            " images in one of ", shards.size(), " shards"));
}

}  // namespace

void CudaBackend::batch_norm(BatchNormDims d, Collective& shards, const NormForward& n, Tensor running_mean,
                             Tensor running_var) {
  require_whole_batch(d, shards);
  for_type("batch_norm", n.x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    using P = Param<T>;
    constexpr const char* op = "batch_norm";
    const Groups groups(d);
    const T* in = n.x.data<T>();
    A *m = n.mean.data<A>(), *s = n.rstd.data<A>();
    const bool whole = aligned({in, n.gamma.raw(), n.beta.raw(), m, s, n.y.raw()});
    double* partial = partial_.get<double>(2 * groups.all_chunks() * d.cols);
    sum_chunks<1, T>(op, groups, groups.chunk_rows, whole, Values<T>{in}, partial, stream_);
    launch(op, centre<A>, a_group_a_row(groups), stream_, groups, partial, m);
    sum_chunks<2, T>(op, groups, groups.chunk_rows, whole, Centred<T>{d.cols, in, m}, partial, stream_);
    launch(op, statistics<A, P>, {ceil_div(d.cols, kWarp), kColumnThreads}, stream_, groups, d, partial, m, s,
           running_mean.data<P>(), running_var.data<P>());
  });
  batch_norm_again(d, n);
}

void CudaBackend::batch_norm_again(BatchNormDims d, const NormForward& n) {
  for_type("batch_norm", n.x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using P = Param<T>;
    const T* in = n.x.data<T>();
    const auto *m = n.mean.data<Acc<T>>(), *s = n.rstd.data<Acc<T>>();
    each_vector<T>("batch_norm", Groups(d), aligned({in, n.gamma.raw(), n.beta.raw(), m, s, n.y.raw()}), stream_,
                   Normalise<T>{d.cols, in, n.gamma.data<P>(), n.beta.data<P>(), m, s, n.y.data<T>()});
  });
}

void CudaBackend::batch_norm_backward(BatchNormDims d, Collective& shards, const NormBackward& n) {
  require_whole_batch(d, shards);
  for_type("batch_norm", n.x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    using P = Param<T>;
    constexpr const char* op = "batch_norm_backward";
    const Groups groups(d);
    const T *up = n.dy.data<T>(), *in = n.x.data<T>();
    const A *m = n.mean.data<A>(), *s = n.rstd.data<A>();
    const bool whole = aligned({up, in, n.gamma.raw(), m, s, n.dx.to.raw()});
    // The means come first: like the buffer, each begins at a multiple of 16 bytes if it is a whole number of vectors.
    auto* means = reinterpret_cast<A*>(partial_.get<double>(2 * (groups.all_chunks() + groups.count) * d.cols));
    double* partial = reinterpret_cast<double*>(means) + 2 * groups.count * d.cols;
    sum_chunks<2, T>(op, groups, groups.chunk_rows, whole, BatchNormTerms<T>{d.cols, up, in, m, s}, partial, stream_);
    launch(op, means_of_terms<P>, {2 * ceil_div(d.cols, kWarp), kColumnThreads}, stream_, groups, partial, means,
           sums_to<P>({n.dgamma, n.dbeta}));
    if (n.dx)
      each_vector<T>(
          op, groups, whole, stream_,
          BatchNormGradient<T>{groups, up, in, n.gamma.data<P>(), m, s, means, n.dx.to.data<T>(), adds(n.dx)});
  });
}

void CudaBackend::batch_norm_frozen(NormDims d, Tensor x, Tensor gamma, Tensor beta, Tensor running_mean,
                                    Tensor running_var, Tensor y) {
  for_type("batch_norm_frozen", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using P = Param<T>;
    each_vector<T>("batch_norm_frozen", Parts(d.rows, d.cols),
                   aligned({x.raw(), gamma.raw(), beta.raw(), running_mean.raw(), running_var.raw(), y.raw()}), stream_,
                   Frozen<T>{d.eps, x.data<T>(), gamma.data<P>(), beta.data<P>(), running_mean.data<P>(),
                             running_var.data<P>(), y.data<T>()});
  });
}

void CudaBackend::batch_norm_frozen_backward(NormDims d, const NormBackward& n, Tensor running_mean,
                                             Tensor running_var) {
  for_type("batch_norm_frozen", n.x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using P = Param<T>;
    vector_sums<2, T>(
        "batch_norm_frozen_backward", d.rows, d.cols,
        aligned({n.dy.raw(), n.x.raw(), n.gamma.raw(), running_mean.raw(), running_var.raw(), n.dx.to.raw()}),
        FrozenGradient<T>{d.eps, n.dy.data<T>(), n.x.data<T>(), n.gamma.data<P>(), running_mean.data<P>(),
                          running_var.data<P>(), n.dx.to.data<T>(), adds(n.dx)},
        {n.dgamma, n.dbeta}, partial_, stream_);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
