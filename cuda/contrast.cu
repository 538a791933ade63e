// Unit rows and the contrastive losses over them, one warp per row; and rows of a table by their numbers.
#include "core/contrast_rule.h"
#include "cuda/cuda_backend.h"
#include "cuda/kernel.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

constexpr double kTiny = 1e-8;  // added to a norm, as in Big Vision

template <class T>
__device__ Acc<T> norm_of(const T* x, std::int64_t n) {
  return std::sqrt(warp_sum_of<Acc<T>>(n, [&](std::int64_t c) { return Acc<T>(x[c]) * Acc<T>(x[c]); }));
}

template <class T>
__global__ void unit_rows_kernel(std::int64_t rows, std::int64_t cols, const T* x, Acc<T>* y) {
  const std::int64_t r = row_of_warp();
  if (r >= rows) return;  // a whole warp
  const Acc<T> by = norm_of(x + r * cols, cols) + Acc<T>(kTiny);
  for (std::int64_t c = threadIdx.x % kWarp; c < cols; c += kWarp) y[r * cols + c] = Acc<T>(x[r * cols + c]) / by;
}

template <class T>
__global__ void unit_rows_gradient(std::int64_t rows, std::int64_t cols, const Acc<T>* dy, const T* x, T* dx,
                                   bool add) {
  using A = Acc<T>;
  const std::int64_t r = row_of_warp();
  if (r >= rows) return;
  const T* in = x + r * cols;
  const A* up = dy + r * cols;
  const A norm = norm_of(in, cols), by = norm + A(kTiny);
  const A along = warp_sum_of<A>(cols, [&](std::int64_t c) { return up[c] * A(in[c]); });
  const A back = norm > 0 ? along / (norm * by * by) : A(0);
  for (std::int64_t c = threadIdx.x % kWarp; c < cols; c += kWarp)
    put(dx[r * cols + c], up[c] / by - back * A(in[c]), add);
}

/// Lane 0 writes the largest logit of a row and the sum of exp(logit - largest).
template <class A>
__device__ void softmax_of(const ContrastRule<A>& rule, std::int64_t n, const A* cosines, A* out) {
  A top = cosines[0];
  for (std::int64_t c = threadIdx.x % kWarp; c < n; c += kWarp) top = cosines[c] > top ? cosines[c] : top;
  top = rule.logit(warp_max(top));
  const A total = warp_sum_of<A>(n, [&](std::int64_t c) { return std::exp(rule.logit(cosines[c]) - top); });
  if (threadIdx.x % kWarp == 0) out[0] = top, out[1] = total;
}

template <class A>
__global__ void contrast_losses(ContrastDims d, ContrastRule<A> rule, const A* rows, const A* cols, A* statistics,
                                A* losses) {
  const std::int64_t i = row_of_warp();
  if (i >= d.images) return;
  const A* row = rows + i * d.batch;
  const bool first = threadIdx.x % kWarp == 0;
  if (d.sigmoid) {
    const A loss = warp_sum_of<A>(d.batch, [&](std::int64_t j) {
      const A z = rule.logit(row[j]);
      return rule.minus_log_sigmoid(j == d.first + i ? z : -z);
    });
    if (first) losses[i] = loss;
    return;
  }
  A* const own = statistics + 4 * i;
  softmax_of(rule, d.batch, row, own);
  softmax_of(rule, d.batch, cols + i * d.batch, own + 2);
  if (first) losses[i] = rule.softmax_loss(rule.logit(row[d.first + i]), own);
}

template <class A>
__global__ void contrast_gradient(ContrastDims d, ContrastRule<A> rule, A* rows, A* cols, A* partial) {
  const std::int64_t i = row_of_warp();
  if (i >= d.images) return;
  const std::int64_t own = d.first + i;
  A *row = rows + i * d.batch, *col = cols + i * d.batch;
  const A scale = rule.scale();
  A of_t = 0, of_b = 0;
  for (std::int64_t j = threadIdx.x % kWarp; j < d.batch; j += kWarp) {
    const A g = rule.gradient(own, j, rule.logit(row[j]));
    of_t += g * scale * row[j];
    of_b += g;
    row[j] = g * scale;
    col[j] = rule.gradient(j, own, rule.logit(col[j])) * scale;
  }
  of_t = warp_sum(of_t);
  of_b = warp_sum(of_b);
  if (threadIdx.x % kWarp == 0) partial[2 * i] = of_t, partial[2 * i + 1] = of_b;
}

/// One warp.
template <class A>
__global__ void sum_partial(std::int64_t n, bool sigmoid, const A* partial, A* dt, bool add_t, A* db, bool add_b) {
  const A of_t = warp_sum_of<A>(n, [&](std::int64_t i) { return partial[2 * i]; });
  const A of_b = warp_sum_of<A>(n, [&](std::int64_t i) { return sigmoid ? partial[2 * i + 1] : A(0); });
  if (threadIdx.x != 0) return;
  if (dt) put(*dt, of_t, add_t);
  if (db) put(*db, of_b, add_b);
}

template <class T>
struct Embed {
  std::int64_t cols;
  const std::int32_t* ids;
  const Param<T>* table;
  T* y;
  __device__ void operator()(std::int64_t i) const { y[i] = T(table[ids[i / cols] * cols + i % cols]); }
};

/// The first of equal numbers adds the gradients of all, in their order, so no two warps write to a row.
template <class T>
__global__ void embed_gradient(std::int64_t rows, std::int64_t cols, const T* dy, const std::int32_t* ids,
                               Param<T>* dtable) {
  const std::int64_t r = row_of_warp();
  if (r >= rows) return;
  for (std::int64_t before = 0; before < r; ++before)
    if (ids[before] == ids[r]) return;
  for (std::int64_t c = threadIdx.x % kWarp; c < cols; c += kWarp) {
    Param<T> total = 0;
    for (std::int64_t i = r; i < rows; ++i)
      if (ids[i] == ids[r]) total += Param<T>(dy[i * cols + c]);
    dtable[ids[r] * cols + c] += total;
  }
}

}  // namespace

void CudaBackend::unit_rows(Tensor x, Tensor y) {
  for_type("unit_rows", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("unit_rows", unit_rows_kernel<T>, warp_a_row(x.shape().rows()), stream_, x.shape().rows(), x.shape().back(),
           x.data<T>(), y.data<Acc<T>>());
  });
}

void CudaBackend::unit_rows_backward(Tensor dy, Tensor x, Gradient dx) {
  if (!dx) return;
  for_type("unit_rows", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("unit_rows_backward", unit_rows_gradient<T>, warp_a_row(x.shape().rows()), stream_, x.shape().rows(),
           x.shape().back(), dy.data<Acc<T>>(), x.data<T>(), dx.to.data<T>(), adds(dx));
  });
}

void CudaBackend::contrast(ContrastDims d, const Contrast& of, Tensor statistics, Tensor losses) {
  for_param_type("contrast", losses.dtype(), [&](auto type) {
    using A = typename decltype(type)::type;
    launch("contrast", contrast_losses<A>, warp_a_row(d.images), stream_, d, contrast_rule<A>(d, of, {}, {}),
           of.rows.data<A>(), of.cols.data<A>(), statistics.data<A>(), losses.data<A>());
  });
}

void CudaBackend::contrast_backward(ContrastDims d, const Contrast& of, Tensor statistics, Tensor dlosses,
                                    Tensor partial, Gradient dt, Gradient db) {
  for_param_type("contrast", dlosses.dtype(), [&](auto type) {
    using A = typename decltype(type)::type;
    launch("contrast_backward", contrast_gradient<A>, warp_a_row(d.images), stream_, d,
           contrast_rule<A>(d, of, statistics, dlosses), of.rows.data<A>(), of.cols.data<A>(), partial.data<A>());
    launch("contrast_backward", sum_partial<A>, {1, kWarp}, stream_, d.images, d.sigmoid, partial.data<A>(),
           dt.to.data<A>(), adds(dt), db.to.data<A>(), adds(db));
  });
}

void CudaBackend::embed(Tensor ids, Tensor table, Tensor y) {
  for_type("embed", y.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("embed", y.size(), stream_,
                 Embed<T>{y.shape().back(), ids.data<std::int32_t>(), table.data<Param<T>>(), y.data<T>()});
  });
}

void CudaBackend::embed_backward(Tensor dy, Tensor ids, Gradient dtable) {
  if (!dtable) return;
  if (!adds(dtable)) fill(dtable.to, 0);
  for_type("embed", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("embed_backward", embed_gradient<T>, warp_a_row(ids.size()), stream_, ids.size(), dy.shape().back(),
           dy.data<T>(), ids.data<std::int32_t>(), dtable.to.data<Param<T>>());
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
