// Multi-head attention: the kernels of attention.cuh and attention_backward.cuh without a bias on the scores.
#include "cuda/attention.cuh"

#include "cuda/attention_backward.cuh"
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
  for_type("attention_backward", input.q.dtype(), [&]<class T>(Type<T>) {
    const auto work = work_of<T>(d, input, NoBias<Acc<T>>{},
                                 {dy.raw(), output.y.raw(), to.dq.to.raw(), to.dk.to.raw(), to.dv.to.raw()});
    Acc<T>* delta = wide_.get<Acc<T>>(d.batch * d.heads * d.tokens);
    run_attention_backward<T, NoBias<Acc<T>>>("attention_backward",
                                              {work, dy.data<T>(), output.lse.data<Acc<T>>(), delta},
                                              output.y.data<T>(), delta, to.dq, to.dk, to.dv, stream_);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
