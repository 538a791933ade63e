// The gradients of the contrastive losses and of a table of rows, one warp per row.
#include "core/contrast_rule.h"
#include "cuda/cuda_backend.h"
#include "cuda/kernel.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

template <class A>
__global__ void contrast_gradient(ContrastDims d, ContrastRule<A> rule, A* rows, A* cols, A* partial) {
  const std::int64_t i = row_of_warp();
  if (i >= d.images) return;
  const std::int64_t pair = d.first + i;
  A *row = rows + i * d.batch, *col = cols + i * d.batch;
  const A scale = rule.scale();
  A of_t = 0, of_b = 0;
  for (std::int64_t j = threadIdx.x % kWarp; j < d.batch; j += kWarp) {
    const A g = rule.gradient(pair, j, rule.logit(row[j]));
    of_t += g * scale * row[j];
    of_b += g;
    row[j] = g * scale;
    col[j] = rule.gradient(j, pair, rule.logit(col[j])) * scale;
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

void CudaBackend::contrast_backward(ContrastDims d, const Contrast& cosines, Tensor statistics, Tensor dlosses,
                                    Tensor partial, Gradient dt, Gradient db) {
  for_param_type("contrast", dlosses.dtype(), [&]<class A>(Type<A>) {
    launch("contrast_backward", contrast_gradient<A>, warp_a_row(d.images), stream_, d,
           contrast_rule<A>(d, cosines, statistics, dlosses), cosines.rows.data<A>(), cosines.cols.data<A>(),
           partial.data<A>());
    launch("contrast_backward", sum_partial<A>, {1, kWarp}, stream_, d.images, d.sigmoid, partial.data<A>(),
           dt.to.data<A>(), adds(dt), db.to.data<A>(), adds(db));
  });
}

void CudaBackend::embed_backward(Tensor dy, Tensor ids, Gradient dtable) {
  if (!dtable) return;
  if (!adds(dtable)) fill(dtable.to, 0);
  for_type("embed", dy.dtype(), [&]<class T>(Type<T>) {
    launch("embed_backward", embed_gradient<T>, warp_a_row(ids.size()), stream_, ids.size(), dy.shape().back(),
           dy.data<T>(), ids.data<std::int32_t>(), dtable.to.data<Param<T>>());
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
