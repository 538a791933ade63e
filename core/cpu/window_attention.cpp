// Attention inside windows (Liu et al. 2021, section 3.2), a head at a time over all windows: their scores share one
// bias, and its gradient is added up in the order of the windows.
#include "core/cpu/attention_head.h"
#include "core/cpu/window_bias.h"

namespace normlab {
using namespace cpu;
namespace {

/// bias [N, N] of head h with each mask that a window may have.
template <class T>
class HeadBias {
 public:
  HeadBias(const WindowDims& d, std::int64_t heads) : d_(d), heads_(heads) {
    patterns_ = d.shift == 0 ? 1 : kMaskPatterns;
    values_ = scratch<T>(Slot::b, patterns_ * size());
  }
  void take(std::int64_t h, const T* table) {
    expand_bias(d_, heads_, h, table, values_);
    for (int p = 1; p < patterns_; ++p) {
      std::copy_n(values_, size(), values_ + p * size());
      add_mask(d_, p, values_ + p * size());
    }
  }
  const T* of(std::int64_t window) const { return values_ + mask_pattern(d_, window) * size(); }

 private:
  std::int64_t size() const { return d_.tokens() * d_.tokens(); }
  const WindowDims d_;
  const std::int64_t heads_;
  int patterns_;
  T* values_;
};

template <class T>
void forward(AttentionDims d, const WindowDims& windows, const T* q, const T* k, const T* v, const T* table,
             const std::uint8_t* keep, double rate, T* y, T* lse) {
  const std::int64_t N = d.tokens;
  const HeadWork<T> work{d, rate};
  HeadBias<T> bias(windows, d.heads);
  T* p = scratch<T>(Slot::a, N * N + N);
  for (std::int64_t h = 0; h < d.heads; ++h) {
    bias.take(h, table);
    for (std::int64_t b = 0; b < d.batch; ++b) {
      const std::int64_t in = b * N * d.stride + h * d.head_dim, out = b * N * d.width() + h * d.head_dim;
      const std::int64_t row = (b * d.heads + h) * N;
      forward_head<T>(work, {q + in, d.stride}, {k + in, d.stride}, {v + in, d.stride}, bias.of(b),
                      keep ? keep + row * N : nullptr, p, y + out, lse + row);
    }
  }
}

template <class T>
void gradients(AttentionDims d, const WindowDims& windows, const T* dy, const T* q, const T* k, const T* v,
               const T* table, const std::uint8_t* keep, double rate, const T* y, const T* lse, Gradient dq,
               Gradient dk, Gradient dv, Gradient dtable) {
  const std::int64_t N = d.tokens;
  const HeadWork<T> work{d, rate};
  HeadBias<T> bias(windows, d.heads);
  T* p = scratch<T>(Slot::a, 2 * N * N);
  T* dbias = scratch<T>(Slot::c, N * N);
  for (std::int64_t h = 0; h < d.heads; ++h) {
    bias.take(h, table);
    std::fill_n(dbias, N * N, T(0));
    for (std::int64_t b = 0; b < d.batch; ++b) {
      const std::int64_t in = b * N * d.stride + h * d.head_dim, out = b * N * d.width() + h * d.head_dim;
      const std::int64_t row = (b * d.heads + h) * N;
      head_gradients<T>(work, {dy + out, d.width()}, {q + in, d.stride}, {k + in, d.stride}, {v + in, d.stride},
                        bias.of(b), keep ? keep + row * N : nullptr, y + out, lse + row, p, bool(dtable),
                        {into<T>(dq, in), into<T>(dk, in), into<T>(dv, in), adds(dq), adds(dk), adds(dv)});
      if (dtable)
        for (std::int64_t i = 0; i < N * N; ++i) dbias[i] += p[N * N + i];
    }
    if (dtable) reduce_bias<T>(windows, d.heads, h, dbias, dtable);
  }
}

}  // namespace

void CpuBackend::window_attention(AttentionDims d, WindowDims windows, Tensor q, Tensor k, Tensor v, Tensor table,
                                  Tensor keep, double rate, Tensor y, Tensor lse) {
  if (q.dtype() == DType::bf16) return attention_bf16(d, &windows, q, k, v, table, keep, rate, y, lse);
  for_param_type("window_attention", q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    forward<T>(d, windows, q.data<T>(), k.data<T>(), v.data<T>(), table.data<T>(), keep.data<std::uint8_t>(), rate,
               y.data<T>(), lse.data<T>());
  });
}

void CpuBackend::window_attention_backward(AttentionDims d, WindowDims windows, Tensor dy, Tensor q, Tensor k, Tensor v,
                                           Tensor table, Tensor keep, double rate, Tensor y, Tensor lse, Gradient dq,
                                           Gradient dk, Gradient dv, Gradient dtable) {
  if (q.dtype() == DType::bf16)
    return attention_bf16_backward(d, &windows, dy, q, k, v, table, keep, rate, y, lse, dq, dk, dv, dtable);
  for_param_type("window_attention", q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    gradients<T>(d, windows, dy.data<T>(), q.data<T>(), k.data<T>(), v.data<T>(), table.data<T>(),
                 keep.data<std::uint8_t>(), rate, y.data<T>(), lse.data<T>(), dq, dk, dv, dtable);
  });
}

}  // namespace normlab
