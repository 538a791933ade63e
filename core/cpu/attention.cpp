// Multi-head attention in float and double, a head at a time. For bf16 see attention_bf16.cpp.
#include "core/cpu/attention_head.h"

namespace normlab {
using namespace cpu;
namespace {

template <class T>
void attention_forward(AttentionDims d, const T* q, const T* k, const T* v, const std::uint8_t* keep, double rate, T* y,
                       T* lse) {
  const std::int64_t N = d.tokens;
  const HeadWork<T> work{d, rate};
  T* p = scratch<T>(Slot::a, N * N + N);
  for (std::int64_t b = 0; b < d.batch; ++b)
    for (std::int64_t h = 0; h < d.heads; ++h) {
      const std::int64_t in = b * N * d.stride + h * d.head_dim, out = b * N * d.width() + h * d.head_dim;
      const std::int64_t row = (b * d.heads + h) * N;
      forward_head<T>(work, {q + in, d.stride}, {k + in, d.stride}, {v + in, d.stride}, nullptr,
                      keep ? keep + row * N : nullptr, p, y + out, lse + row);
    }
}

template <class T>
void attention_gradients(AttentionDims d, const T* dy, const T* q, const T* k, const T* v, const std::uint8_t* keep,
                         double rate, const T* y, const T* lse, Gradient dq, Gradient dk, Gradient dv) {
  const std::int64_t N = d.tokens;
  const HeadWork<T> work{d, rate};
  T* p = scratch<T>(Slot::a, 2 * N * N);
  for (std::int64_t b = 0; b < d.batch; ++b)
    for (std::int64_t h = 0; h < d.heads; ++h) {
      const std::int64_t in = b * N * d.stride + h * d.head_dim, out = b * N * d.width() + h * d.head_dim;
      const std::int64_t row = (b * d.heads + h) * N;
      head_gradients<T>(work, {dy + out, d.width()}, {q + in, d.stride}, {k + in, d.stride}, {v + in, d.stride},
                        nullptr, keep ? keep + row * N : nullptr, y + out, lse + row, p, false,
                        {into<T>(dq, in), into<T>(dk, in), into<T>(dv, in), adds(dq), adds(dk), adds(dv)});
    }
}

}  // namespace

void CpuBackend::attention(AttentionDims d, Tensor q, Tensor k, Tensor v, Tensor keep, double rate, Tensor y,
                           Tensor lse) {
  if (q.dtype() == DType::bf16) return attention_bf16(d, nullptr, q, k, v, {}, keep, rate, y, lse);
  for_param_type("attention", q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    attention_forward<T>(d, q.data<T>(), k.data<T>(), v.data<T>(), keep.data<std::uint8_t>(), rate, y.data<T>(),
                         lse.data<T>());
  });
}

void CpuBackend::attention_backward(AttentionDims d, Tensor dy, Tensor q, Tensor k, Tensor v, Tensor keep, double rate,
                                    Tensor y, Tensor lse, Gradient dq, Gradient dk, Gradient dv) {
  if (q.dtype() == DType::bf16)
    return attention_bf16_backward(d, nullptr, dy, q, k, v, {}, keep, rate, y, lse, dq, dk, dv, {});
  for_param_type("attention", q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    attention_gradients<T>(d, dy.data<T>(), q.data<T>(), k.data<T>(), v.data<T>(), keep.data<std::uint8_t>(), rate,
                           y.data<T>(), lse.data<T>(), dq, dk, dv);
  });
}

}  // namespace normlab
