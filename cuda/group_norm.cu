// GroupNorm (Wu and He 2018, section 3): groups of neighbouring channels of an image, each normalised over its channels
// and all rows by one block, which sums in double.
#include "cuda/column_sums.cuh"
#include "cuda/cuda_backend.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

constexpr int kGroupThreads = 256;

/// This block's group: the place of its values, and their number.
struct Group {
  std::int64_t width, cols, first, channel, count;
  __device__ explicit Group(GroupNormDims d)
      : width(d.cols / d.groups),
        cols(d.cols),
        first(blockIdx.x / d.groups * d.rows * d.cols),
        channel(blockIdx.x % d.groups * width),
        count(d.rows * width) {}
  /// Calls f(place, channel) for the values of this thread.
  template <class F>
  __device__ void each(F&& f) const {
    for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x)
      f(first + i / width * cols + channel + i % width, channel + i % width);
  }
  /// The mean over the group of term(place, channel), in every thread.
  template <class F>
  __device__ double mean(F&& term) const {
    double total = 0;
    each([&](std::int64_t at, std::int64_t c) { total += double(term(at, c)); });
    return block_sum(total) / double(count);
  }
};

template <class T>
__global__ void group_forward(GroupNormDims d, const T* x, const Param<T>* gamma, const Param<T>* beta, T* y,
                              Acc<T>* mean, Acc<T>* rstd) {
  using A = Acc<T>;
  const Group group(d);
  // Two passes: E[x^2] - E[x]^2 loses every digit once the mean dwarfs the spread.
  const A m = A(group.mean([&](std::int64_t at, std::int64_t) { return A(x[at]); }));
  const A v = A(group.mean([&](std::int64_t at, std::int64_t) { return (A(x[at]) - m) * (A(x[at]) - m); }));
  const A s = 1 / std::sqrt(v + A(d.eps));
  group.each([&](std::int64_t at, std::int64_t c) { y[at] = T(gamma[c] * ((A(x[at]) - m) * s) + beta[c]); });
  if (threadIdx.x != 0) return;
  mean[blockIdx.x] = m;
  rstd[blockIdx.x] = s;
}

/// As for LayerNorm, with the means over a group: dx = rstd (g - mean(g) - x_hat mean(g x_hat)), g = dy gamma.
template <class T>
__global__ void group_gradient(GroupNormDims d, const T* dy, const T* x, const Param<T>* gamma, const Acc<T>* mean,
                               const Acc<T>* rstd, T* dx, bool add) {
  using A = Acc<T>;
  const Group group(d);
  const A m = mean[blockIdx.x], s = rstd[blockIdx.x];
  const auto g = [&](std::int64_t at, std::int64_t c) { return A(dy[at]) * gamma[c]; };
  const A mean_g = A(group.mean(g));
  const A mean_gh = A(group.mean([&](std::int64_t at, std::int64_t c) { return g(at, c) * ((A(x[at]) - m) * s); }));
  group.each([&](std::int64_t at, std::int64_t c) {
    put(dx[at], norm_dx(s, g(at, c), mean_g, (A(x[at]) - m) * s, mean_gh), add);
  });
}

/// Terms of dgamma and dbeta: dy x_hat and dy.
template <class T>
struct GroupTerms {
  GroupNormDims d;
  const T *dy, *x;
  const Acc<T>*mean, *rstd;
  __device__ void operator()(std::int64_t r, std::int64_t c, Acc<T> (&terms)[2]) const {
    const std::int64_t at = r * d.cols + c, group = r / d.rows * d.groups + c / (d.cols / d.groups);
    terms[1] = Acc<T>(dy[at]);
    terms[0] = terms[1] * ((Acc<T>(x[at]) - mean[group]) * rstd[group]);
  }
};

}  // namespace

void CudaBackend::group_norm(GroupNormDims d, const NormForward& n) {
  for_type("group_norm", n.x.dtype(), [&]<class T>(Type<T>) {
    launch("group_norm", group_forward<T>, {d.images * d.groups, kGroupThreads}, stream_, d, n.x.data<T>(),
           n.gamma.data<Param<T>>(), n.beta.data<Param<T>>(), n.y.data<T>(), n.mean.data<Acc<T>>(),
           n.rstd.data<Acc<T>>());
  });
}

void CudaBackend::group_norm_backward(GroupNormDims d, const NormBackward& n) {
  for_type("group_norm", n.x.dtype(), [&]<class T>(Type<T>) {
    const T *dy = n.dy.data<T>(), *x = n.x.data<T>();
    const Acc<T>*mean = n.mean.data<Acc<T>>(), *rstd = n.rstd.data<Acc<T>>();
    if (n.dx)
      launch("group_norm_backward", group_gradient<T>, {d.images * d.groups, kGroupThreads}, stream_, d, dy, x,
             n.gamma.data<Param<T>>(), mean, rstd, n.dx.to.data<T>(), adds(n.dx));
    column_sums<2, Acc<T>, Param<T>>("group_norm_backward", d.images * d.rows, d.cols,
                                     GroupTerms<T>{d, dy, x, mean, rstd}, {n.dgamma, n.dbeta}, sums_, stream_);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
