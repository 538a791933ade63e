// Batch norm over a whole batch, which is one shard on a device: two passes over the values in blocks of rows, combined
// in double in a fixed order.
#include "cuda/map.cuh"

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

/// The terms x, and x - mean with its square.
struct Values {
  template <class A>
  __device__ A operator()(A (&terms)[1], A x) const {
    return terms[0] = x;
  }
  template <class A>
  __device__ A operator()(A (&terms)[2], A x, A mean) const {
    terms[0] = x - mean;
    terms[1] = terms[0] * terms[0];
    return x;
  }
};
/// y; and the terms of dgamma and dbeta, dy x_hat and dy.
struct Normalise {
  template <class A>
  __device__ A operator()(A x, A gamma, A beta, A mean, A rstd) const {
    return gamma * rstd * (x - mean) + beta;
  }
  template <class A>
  __device__ A operator()(A (&terms)[2], A dy, A x, A mean, A rstd) const {
    terms[0] = dy * ((x - mean) * rstd);
    return terms[1] = dy;
  }
};
/// dx = gamma rstd (dy - mean(dy) - x_hat mean(dy x_hat)), means over all values of the channel in the group.
struct BatchNormGradient {
  template <class A>
  __device__ A operator()(A dy, A x, A gamma, A mean, A rstd, A mean_uph, A mean_up) const {
    return gamma * rstd * ((dy - mean_up) - (x - mean) * (mean_uph * rstd));
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
__device__ void move(P& running, double carry, double by) {
  running = P(carry * double(running) + by);
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
  move(running_mean[at.c], d.carry(), new_mean);
  move(running_var[at.c], d.carry(), new_var);
}

/// The means [2, groups, cols] of dy x_hat and dy for each group; their sums over the groups are dgamma and dbeta. The
/// grid is two rows of tiles.
template <class P>
__global__ void __launch_bounds__(kColumnThreads)
    means_of_terms(Groups groups, const double* partial, P* means, SumsTo<2, P> targets) {
  const TileColumn at(groups.cols);
  const int k = static_cast<int>(at.row);
  double total = 0;
  for (std::int64_t g = 0; g < groups.count; ++g) {
    const double sum = sum_of_group(groups, partial, k, g, at.c);
    if (at.writes(groups.cols)) means[(k * groups.count + g) * groups.cols + at.c] = P(sum / double(groups.size(g)));
    total += sum;
  }
  const auto one = targets.at(at.row);
  if (one.to && at.writes(groups.cols)) put(one.to[at.c], P(total), one.add);
}

/// With running statistics: y, and dx with the terms of dgamma and dbeta.
struct Frozen {
  double eps;
  template <class A>
  __device__ A operator()(A x, A gamma, A beta, A mean, A var) const {
    return gamma / std::sqrt(var + A(eps)) * (x - mean) + beta;
  }
  template <class A>
  __device__ A operator()(A (&terms)[2], A dy, A x, A gamma, A mean, A var) const {
    const A rstd = 1 / std::sqrt(var + A(eps));
    terms[0] = dy * ((x - mean) * rstd);
    terms[1] = dy;
    return dy * (gamma * rstd);
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
  for_type("batch_norm", n.x.dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    using P = Param<T>;
    constexpr const char* op = "batch_norm";
    const Groups groups(d);
    A *m = n.mean.data<A>(), *s = n.rstd.data<A>();
    double* partial = partial_.get<double>(2 * groups.all_chunks() * d.cols);
    const auto values = map_of<T>(Values(), d.cols, Operands<1, 0, 1>{.in = {n.x}});
    sum_chunks<1, T>(op, groups, groups.chunk_rows, values.whole, values, partial, stream_);
    launch(op, centre<A>, a_group_a_row(groups), stream_, groups, partial, m);
    const auto centred = map_of<T>(Values(), d.cols, Operands<1, 1, 2>{.in = {n.x}, .columns = {n.mean}, .by_part = 0});
    sum_chunks<2, T>(op, groups, groups.chunk_rows, centred.whole, centred, partial, stream_);
    launch(op, statistics<A, P>, {ceil_div(d.cols, kWarp), kColumnThreads}, stream_, groups, d, partial, m, s,
           running_mean.data<P>(), running_var.data<P>());
  });
  batch_norm_again(d, n);
}

void CudaBackend::batch_norm_again(BatchNormDims d, const NormForward& n) {
  for_type("batch_norm", n.x.dtype(), [&]<class T>(Type<T>) {
    const auto y =
        map_of<T>(Normalise(), d.cols,
                  Operands<1, 4>{.in = {n.x}, .columns = {n.gamma, n.beta, n.mean, n.rstd}, .y = {n.y}, .by_part = 2});
    each_vector<T>("batch_norm", Groups(d), y.whole, stream_, y);
  });
}

void CudaBackend::batch_norm_backward(BatchNormDims d, Collective& shards, const NormBackward& n) {
  require_whole_batch(d, shards);
  for_type("batch_norm", n.x.dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    constexpr const char* op = "batch_norm_backward";
    const Groups groups(d);
    const std::int64_t values = groups.count * d.cols;
    // The means come first: like the buffer, each begins at a multiple of 16 bytes if it is a whole number of vectors.
    auto* means = reinterpret_cast<A*>(partial_.get<double>(2 * (groups.all_chunks() * d.cols + values)));
    double* partial = reinterpret_cast<double*>(means) + 2 * values;
    const auto terms =
        map_of<T>(Normalise(), d.cols, Operands<2, 2, 2>{.in = {n.dy, n.x}, .columns = {n.mean, n.rstd}, .by_part = 0});
    sum_chunks<2, T>(op, groups, groups.chunk_rows, terms.whole, terms, partial, stream_);
    launch(op, means_of_terms<A>, {2 * ceil_div(d.cols, kWarp), kColumnThreads}, stream_, groups, partial, means,
           sums_to<A>({n.dgamma, n.dbeta}));
    if (!n.dx) return;
    const auto mean = [&](A* values_at) { return Tensor(values_at, {values}, Storage<A>::dtype); };
    const auto dx = map_of<T>(BatchNormGradient(), d.cols,
                              Operands<2, 5>{.in = {n.dy, n.x},
                                             .columns = {n.gamma, n.mean, n.rstd, mean(means), mean(means + values)},
                                             .y = n.dx,
                                             .by_part = 1});
    each_vector<T>(op, groups, dx.whole, stream_, dx);
  });
}

void CudaBackend::batch_norm_frozen(NormDims d, Tensor x, Tensor gamma, Tensor beta, Tensor running_mean,
                                    Tensor running_var, Tensor y) {
  map("batch_norm_frozen", d.rows, d.cols, Frozen{d.eps},
      Operands<1, 4>{.in = {x}, .columns = {gamma, beta, running_mean, running_var}, .y = {y}});
}

void CudaBackend::batch_norm_frozen_backward(NormDims d, const NormBackward& n, Tensor running_mean,
                                             Tensor running_var) {
  map("batch_norm_frozen_backward", d.rows, d.cols, Frozen{d.eps},
      Operands<2, 3, 2>{
          .in = {n.dy, n.x}, .columns = {n.gamma, running_mean, running_var}, .y = n.dx, .sums = {n.dgamma, n.dbeta}});
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
