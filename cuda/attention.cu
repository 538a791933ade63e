// Multi-head attention: the kernels of attention.cuh and attention_backward.cuh without a bias on the scores.
#include "cuda/attention.cuh"

#include "cuda/attention_backward.cuh"
#include "cuda/column_sums.cuh"
#include "cuda/cuda_backend.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void CudaBackend::prepare_attention(AttentionDims d, DType) { require_tile(d); }

void CudaBackend::attention(AttentionDims d, const AttentionInput& input, const AttentionOutput& output) {
  if (input.windows) return window_attention(d, input, output);
  for_type("attention", input.q.dtype(), [&]<class T>(Type<T>) {
    run_attention("attention", work_of<T>(d, input, NoBias<Acc<T>>{}, {output.y.raw()}), output.y, output.lse, stream_);
  });
}

void CudaBackend::attention_backward(AttentionDims d, const AttentionInput& input, const AttentionOutput& output,
                                     Tensor dy, const AttentionGradients& to) {
  if (input.windows) return window_attention_backward(d, input, output, dy, to);
  constexpr const char* kOp = "attention_backward";
  for_type(kOp, input.q.dtype(), [&]<class T>(Type<T>) {
    const auto work = work_of<T>(d, input, NoBias<Acc<T>>{},
                                 {dy.raw(), output.y.raw(), to.dq.to.raw(), to.dk.to.raw(), to.dv.to.raw()});
    Acc<T>* delta = wide_.get<Acc<T>>(d.batch * d.heads * d.tokens);
    constexpr std::int64_t kMostChunks = 1024;  // images whose sums a second stage may add
    double* const sums = to.dsum && d.batch <= kMostChunks ? sums_.room(d.batch * d.stride) : nullptr;
    const bool summed =
        run_attention_backward<T, NoBias<Acc<T>>>(kOp, {work, dy.data<T>(), output.lse.data<Acc<T>>(), delta},
                                                  output.y.data<T>(), delta, to.dq, to.dk, to.dv, sums, stream_);
    if (summed)
      NORMLAB_CUDA_NAMESPACE::finish_sums<1, Param<T>>(kOp, d.batch, d.stride, sums, {to.dsum}, sums_, stream_);
    else if (to.dsum)
      sum_rows(kOp, d.batch * d.tokens, d.stride, to.dq.to, to.dsum);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
