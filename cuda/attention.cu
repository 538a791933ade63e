// Multi-head attention: the kernels of attention.cuh and attention_backward.cuh with nothing added to the scores.
#include "cuda/attention.cuh"

#include "cuda/attention_backward.cuh"
#include "cuda/cuda_backend.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void CudaBackend::attention(AttentionDims d, Tensor q, Tensor k, Tensor v, Tensor keep, double rate, Tensor y,
                            Tensor lse) {
  for_type("attention", q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto work = work_of<T>(d, q, k, v, keep, rate, NoBias<Acc<T>>{}, {y.raw()});
    run_attention("attention", work, y, lse, stream_);
  });
}

void CudaBackend::attention_backward(AttentionDims d, Tensor dy, Tensor q, Tensor k, Tensor v, Tensor keep, double rate,
                                     Tensor y, Tensor lse, Gradient dq, Gradient dk, Gradient dv) {
  for_type("attention_backward", q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto work = work_of<T>(d, q, k, v, keep, rate, NoBias<Acc<T>>{},
                                 {dy.raw(), y.raw(), dq.to.raw(), dk.to.raw(), dv.to.raw()});
    Acc<T>* delta = wide_.get<Acc<T>>(d.batch * d.heads * d.tokens);
    run_attention_backward<T, NoBias<Acc<T>>>("attention_backward", {work, dy.data<T>(), lse.data<Acc<T>>(), delta},
                                              y.data<T>(), delta, dq, dk, dv, stream_);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
