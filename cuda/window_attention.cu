// Attention inside windows (Liu et al. 2021, section 3.2): the kernels of attention with a bias by relative position
// and the mask of the cyclic shift, and the gradient of the bias.
#include "cuda/column_sums.cuh"
#include "cuda/cuda_backend.h"
#include "cuda/window_bias.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

template <class A>
WindowBias<A> bias_of(const WindowDims& d, std::int64_t heads, Tensor table) {
  return {table.data<A>(),           static_cast<int>(heads),    static_cast<int>(d.window),
          static_cast<int>(d.shift), static_cast<int>(d.down()), static_cast<int>(d.across())};
}

template <class A>
struct BiasTerms {
  std::int64_t cols;
  const A* terms;
  __device__ void operator()(std::int64_t r, std::int64_t c, A (&values)[1]) const { values[0] = terms[r * cols + c]; }
};

}  // namespace

void CudaBackend::window_attention(AttentionDims d, WindowDims windows, Tensor q, Tensor k, Tensor v, Tensor table,
                                   Tensor keep, double rate, Tensor y, Tensor lse) {
  for_type("window_attention", q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto work = work_of<T>(d, q, k, v, keep, rate, bias_of<Acc<T>>(windows, d.heads, table), {y.raw()});
    run_attention("window_attention", work, y, lse, stream_);
  });
}

void CudaBackend::window_attention_backward(AttentionDims d, WindowDims windows, Tensor dy, Tensor q, Tensor k,
                                            Tensor v, Tensor table, Tensor keep, double rate, Tensor y, Tensor lse,
                                            Gradient dq, Gradient dk, Gradient dv, Gradient dtable) {
  constexpr const char* kOp = "window_attention_backward";
  for_type(kOp, q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    const BiasPlan plan = plan_bias_terms<T>(d, windows.offsets());
    const std::int64_t cols = windows.offsets() * d.heads, deltas = d.batch * d.heads * d.tokens;
    A *delta = wide_.get<A>(deltas + (dtable ? plan.rows * cols : 0)), *terms = delta + deltas;
    const AttentionBackwardWork<T, WindowBias<A>> work{
        work_of<T>(d, q, k, v, keep, rate, bias_of<A>(windows, d.heads, table),
                   {dy.raw(), y.raw(), dq.to.raw(), dk.to.raw(), dv.to.raw()}),
        dy.data<T>(), lse.data<A>(), delta};
    run_attention_backward(kOp, work, y.data<T>(), delta, dq, dk, dv, stream_);
    if (!dtable) return;
    run_bias_terms(kOp, plan, work, terms, stream_);
    column_sums<1, A, Param<T>>(kOp, plan.rows, cols, BiasTerms<A>{cols, terms}, {dtable}, partial_, stream_);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
