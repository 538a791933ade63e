// Multi-head attention in float and double, one head at a time. Inside windows (Liu et al. 2021, section 3.2) a
// head's windows are processed together: they share one bias, whose gradient is summed in window order. For bf16
// see attention_bf16.cpp.
#include "core/cpu/attention_head.h"
#include "core/cpu/window_bias.h"

namespace normlab {
using namespace cpu;
namespace {

/// bias [N, N] of a head with each mask that a window may have; null unless attention is inside windows.
template <class T>
class HeadBias {
 public:
  HeadBias(const AttentionInput& in, std::int64_t heads)
      : in_(in),
        heads_(heads),
        patterns_(!in.windows                                      ? 0
                  : in.windows->shift_y + in.windows->shift_x == 0 ? 1
                                                                   : kMaskPatterns),
        values_(in.windows ? patterns_ * size() : 0) {}
  void take(std::int64_t h) {
    expand_bias(*in_.windows, heads_, h, in_.table.data<T>(), values_.begin());
    for (int p = 1; p < patterns_; ++p) {
      std::copy_n(values_.begin(), size(), values_ + p * size());
      add_mask(*in_.windows, p, values_ + p * size());
    }
  }
  const T* of(std::int64_t window) const {
    return values_ ? values_ + mask_pattern(*in_.windows, window) * size() : nullptr;
  }

 private:
  std::int64_t size() const { return in_.windows->tokens() * in_.windows->tokens(); }
  const AttentionInput& in_;
  const std::int64_t heads_;
  const int patterns_;
  const Scratch<T> values_;
};

/// Head i of all: its image or window, and its offsets in q, k, v and their gradients (`in`), in y and dy (`out`), and
/// in lse and keep (`row`). Inside windows, all windows of a head are consecutive. Otherwise the heads of an image are,
/// since its tokens are then still in the cache.
struct HeadPlace {
  std::int64_t image, head, in, out, row;
  HeadPlace(const AttentionDims& d, bool windows, std::int64_t i)
      : image(windows ? i % d.batch : i / d.heads),
        head(windows ? i / d.batch : i % d.heads),
        in(image * d.tokens * d.stride + head * d.head_dim),
        out(image * d.tokens * d.width() + head * d.head_dim),
        row((image * d.heads + head) * d.tokens) {}
};

/// The tensors of a call as heads.
template <class T>
struct Heads {
  const AttentionDims& d;
  const AttentionInput& input;
  Head<T> q(const HeadPlace& at) const { return {input.q.data<T>() + at.in, d.stride}; }
  Head<T> k(const HeadPlace& at) const { return {input.k.data<T>() + at.in, d.stride}; }
  Head<T> v(const HeadPlace& at) const { return {input.v.data<T>() + at.in, d.stride}; }
  const std::uint8_t* keep(const HeadPlace& at) const {
    return input.keep ? input.keep.data<std::uint8_t>() + at.row * d.tokens : nullptr;
  }
};

template <class T>
void attention_forward(AttentionDims d, const AttentionInput& input, const AttentionOutput& output) {
  const std::int64_t N = d.tokens;
  const HeadWork<T> work{d, input.rate};
  const Heads<T> heads{d, input};
  HeadBias<T> bias(input, d.heads);
  const Scratch<T> p(N * N + N);
  T *y = output.y.data<T>(), *lse = output.lse.data<T>();
  for (std::int64_t i = 0; i < d.batch * d.heads; ++i) {
    const HeadPlace at(d, bool(input.windows), i);
    if (input.windows && at.image == 0) bias.take(at.head);
    forward_head<T>(work, heads.q(at), heads.k(at), heads.v(at), bias.of(at.image), heads.keep(at), p, y + at.out,
                    lse + at.row);
  }
}

template <class T>
void attention_gradients(AttentionDims d, const AttentionInput& input, const AttentionOutput& output, const T* dy,
                         const AttentionGradients& to) {
  const std::int64_t N = d.tokens;
  const HeadWork<T> work{d, input.rate};
  const Heads<T> heads{d, input};
  HeadBias<T> bias(input, d.heads);
  const Scratch<T> p(2 * N * N);
  const Scratch<T> dbias(to.dtable ? N * N : 0);
  const T *y = output.y.data<T>(), *lse = output.lse.data<T>();
  for (std::int64_t i = 0; i < d.batch * d.heads; ++i) {
    const HeadPlace at(d, bool(input.windows), i);
    if (input.windows && at.image == 0) {
      bias.take(at.head);
      if (dbias) std::fill_n(dbias.begin(), N * N, T(0));
    }
    head_gradients<T>(
        work, {dy + at.out, d.width()}, heads.q(at), heads.k(at), heads.v(at), bias.of(at.image), heads.keep(at),
        y + at.out, lse + at.row, p, bool(dbias),
        {into<T>(to.dq, at.in), into<T>(to.dk, at.in), into<T>(to.dv, at.in), adds(to.dq), adds(to.dk), adds(to.dv)});
    if (!dbias) continue;
    for (std::int64_t j = 0; j < N * N; ++j) dbias[j] += p[N * N + j];
    if (at.image == d.batch - 1) reduce_bias<T>(*input.windows, d.heads, at.head, dbias.begin(), to.dtable);
  }
}

}  // namespace

void CpuBackend::attention(AttentionDims d, const AttentionInput& input, const AttentionOutput& output) {
  if (input.q.dtype() == DType::bf16) return attention_bf16(d, input, output);
  for_param_type("attention", input.q.dtype(),
                 [&](auto type) { attention_forward<typename decltype(type)::type>(d, input, output); });
}

void CpuBackend::attention_backward(AttentionDims d, const AttentionInput& input, const AttentionOutput& output,
                                    Tensor dy, const AttentionGradients& to) {
  if (input.q.dtype() == DType::bf16) return attention_bf16_backward(d, input, output, dy, to);
  for_param_type("attention", input.q.dtype(),
                 [&]<class T>(Type<T>) { attention_gradients<T>(d, input, output, dy.data<T>(), to); });
}

}  // namespace normlab
