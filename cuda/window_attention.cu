// Attention inside windows (Liu et al. 2021, section 3.2): the attention kernels with a bias by relative position and
// the mask of the cyclic shift, and the gradient of the bias.
#include "cuda/column_sums.cuh"
#include "cuda/cuda_backend.h"
#include "cuda/window_bias.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

template <class A>
WindowBias<A> bias_of(const WindowDims& d, std::int64_t heads, Tensor table) {
  return {table.data<A>(),
          static_cast<int>(heads),
          static_cast<int>(d.window),
          static_cast<int>(d.shift_y),
          static_cast<int>(d.shift_x),
          static_cast<int>(d.down()),
          static_cast<int>(d.across())};
}

template <class A>
struct BiasTerms {
  std::int64_t cols;
  const A* terms;
  __device__ void operator()(std::int64_t r, std::int64_t c, A (&values)[1]) const { values[0] = terms[r * cols + c]; }
};

}  // namespace

void CudaBackend::window_attention(AttentionDims d, const AttentionInput& input, const AttentionOutput& output) {
  for_type("window_attention", input.q.dtype(), [&]<class T>(Type<T>) {
    const auto bias = bias_of<Acc<T>>(*input.windows, d.heads, input.table);
    run_attention("window_attention", work_of<T>(d, input, bias, {output.y.raw()}), output.y, output.lse, stream_);
  });
}

void CudaBackend::window_attention_backward(AttentionDims d, const AttentionInput& input, const AttentionOutput& output,
                                            Tensor dy, const AttentionGradients& to) {
  constexpr const char* kOp = "window_attention_backward";
  for_type(kOp, input.q.dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    const WindowDims& windows = *input.windows;
    const BiasPlan plan = plan_bias_terms<T>(d);
    const std::int64_t cols = windows.offsets() * d.heads, deltas = d.batch * d.heads * d.tokens;
    A *delta = wide_.get<A>(deltas + (to.dtable ? plan.rows * cols : 0)), *terms = delta + deltas;
    const AttentionBackwardWork<T, WindowBias<A>> work{
        work_of<T>(d, input, bias_of<A>(windows, d.heads, input.table),
                   {dy.raw(), output.y.raw(), to.dq.to.raw(), to.dk.to.raw(), to.dv.to.raw()}),
        dy.data<T>(), output.lse.data<A>(), delta};
    run_attention_backward(kOp, work, output.y.data<T>(), delta, to.dq, to.dk, to.dv, nullptr, stream_);
    if (to.dsum) sum_rows(kOp, d.batch * d.tokens, d.stride, to.dq.to, to.dsum);
    if (!to.dtable) return;
    run_bias_terms(kOp, plan, work, terms, stream_);
    column_sums<1, A, Param<T>>(kOp, plan.rows, cols, BiasTerms<A>{cols, terms}, {to.dtable}, sums_, stream_);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
