// Means of tokens, and gradients of a token that all images share and of a table of rows.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
void CpuBackend::mean_tokens(TokenDims d, Tensor x, Tensor y) {
  for_type("mean_tokens", x.dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    const Scratch<A> total(d.cols);
    for (std::int64_t b = 0; b < d.batch; ++b) {
      std::memset(total, 0, static_cast<std::size_t>(d.cols) * sizeof(A));
      for (std::int64_t n = 0; n < d.tokens; ++n) {
        const T* row = x.data<T>() + (b * d.tokens + n) * d.cols;
        for (std::int64_t c = 0; c < d.cols; ++c) total[c] += A(row[c]);
      }
      for (std::int64_t c = 0; c < d.cols; ++c) y.data<T>()[b * d.cols + c] = T(total[c] / A(d.tokens));
    }
  });
}

void CpuBackend::mean_tokens_backward(TokenDims d, Tensor dy, Gradient dx) {
  if (!dx) return;
  for_type("mean_tokens", dy.dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    for (std::int64_t b = 0; b < d.batch; ++b)
      for (std::int64_t n = 0; n < d.tokens; ++n) {
        const T* up = dy.data<T>() + b * d.cols;
        T* out = dx.to.data<T>() + (b * d.tokens + n) * d.cols;
        for (std::int64_t c = 0; c < d.cols; ++c) put(out[c], A(up[c]) / A(d.tokens), adds(dx));
      }
  });
}

void CpuBackend::put_token_backward(TokenDims d, Tensor dy, Gradient dtoken) {
  if (!dtoken) return;
  for_type("put_token_backward", dy.dtype(), [&]<class T>(Type<T>) {
    const T* up = dy.data<T>();
    sum_columns<Param<T>>(d.batch, dtoken.to.size(), dtoken,
                          [&](auto b, auto c) { return Acc<T>(up[b * d.tokens * d.cols + c]); });
  });
}

void CpuBackend::embed_backward(Tensor dy, Tensor ids, Gradient dtable) {
  if (!dtable) return;
  for_type("embed", dy.dtype(), [&]<class T>(Type<T>) {
    const std::int64_t cols = dy.shape().back();
    Param<T>* const to = dtable.to.data<Param<T>>();
    if (!adds(dtable)) std::fill_n(to, dtable.to.size(), Param<T>(0));
    for (std::int64_t r = 0; r < ids.size(); ++r) {
      Param<T>* const row = to + ids.data<std::int32_t>()[r] * cols;
      for (std::int64_t c = 0; c < cols; ++c) row[c] += Param<T>(dy.data<T>()[r * cols + c]);
    }
  });
}

}  // namespace normlab
