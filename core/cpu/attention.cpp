// Multi-head attention in float and double, a head at a time: the [N, N] weights of one head live in scratch that stays
// in the cache, and are made again on the way back from the kept log-sum-exp of each row. For bf16 see
// attention_bf16.cpp.
#include "core/cpu/kernel.h"
#include "core/cpu/product.h"
#include "core/cpu/vector_exp.h"

namespace normlab {
using namespace cpu;
namespace {

/// One head of one image: [tokens, head_dim], `stride` values from token to token.
template <class T>
struct Head {
  const T* data;
  std::int64_t stride;
};

/// weights [N, N] = alpha a b^T.
template <class T>
void weights_product(const AttentionDims& d, T alpha, Head<T> a, Head<T> b, T* weights) {
  product<T>({d.tokens, d.tokens, d.head_dim, plain(a.data, a.stride), transposed(b.data, b.stride), weights, d.tokens,
              false, alpha});
}

/// to [N, head_dim] (+)= alpha W b, W the weights [N, N] as given or transposed.
template <class T>
void head_product(const AttentionDims& d, T alpha, Factor<T> weights, Head<T> b, T* to, std::int64_t to_stride,
                  bool add) {
  product<T>({d.tokens, d.head_dim, d.tokens, weights, plain(b.data, b.stride), to, to_stride, add, alpha});
}

/// Rows of scores to exponentials, in place; inverse [N] gets what makes weights of them, lse [N] the log of their
/// sums.
template <class T>
void softmax_rows(std::int64_t N, T* p, T* inverse, T* lse) {
  for (std::int64_t i = 0; i < N; ++i) {
    T* row = p + i * N;
    const T top = row_max(N, row);
    const T total = exp_row(N, row, T(1), top);
    inverse[i] = 1 / total;
    lse[i] = top + std::log(total);
  }
}

template <class T>
void attention_forward(AttentionDims d, const T* q, const T* k, const T* v, const std::uint8_t* keep, double rate, T* y,
                       T* lse) {
  const std::int64_t N = d.tokens, width = d.width();
  const T scale = T(1 / std::sqrt(double(d.head_dim))), inverse_keep = T(1 / (1 - rate));
  T* p = scratch<T>(Slot::a, N * N + N);
  T* inverse = p + N * N;
  for (std::int64_t b = 0; b < d.batch; ++b)
    for (std::int64_t h = 0; h < d.heads; ++h) {
      const std::int64_t in = b * N * d.stride + h * d.head_dim, out = b * N * width + h * d.head_dim;
      weights_product<T>(d, scale, {q + in, d.stride}, {k + in, d.stride}, p);
      softmax_rows(N, p, inverse, lse + (b * d.heads + h) * N);
      if (keep) {
        const std::uint8_t* mask = keep + (b * d.heads + h) * N * N;
        for (std::int64_t i = 0; i < N * N; ++i) p[i] = mask[i] ? p[i] * inverse_keep : 0;
      }
      head_product<T>(d, T(1), plain<T>(p, N), {v + in, d.stride}, y + out, width, false);
      // The head's result has fewer values than its weights: these stay as they are, and it is divided by their sums.
      for (std::int64_t i = 0; i < N; ++i)
        for (std::int64_t c = 0; c < d.head_dim; ++c) y[out + i * width + c] *= inverse[i];
    }
}

/// With P the weights, M = keep / (1 - rate) and dP = (dy v^T) M:  dv = (P M)^T dy,  dS = P (dP - rowsum(dP P)),
/// dq = dS k / sqrt(d),  dk = dS^T q / sqrt(d). The row sums equal dy . y.
template <class T>
void attention_gradients(AttentionDims d, const T* dy, const T* q, const T* k, const T* v, const std::uint8_t* keep,
                         double rate, const T* y, const T* lse, Gradient dq, Gradient dk, Gradient dv) {
  const std::int64_t N = d.tokens, width = d.width();
  const T scale = T(1 / std::sqrt(double(d.head_dim))), inverse_keep = T(1 / (1 - rate));
  T* p = scratch<T>(Slot::a, 2 * N * N);
  T* ds = p + N * N;
  for (std::int64_t b = 0; b < d.batch; ++b)
    for (std::int64_t h = 0; h < d.heads; ++h) {
      const std::int64_t in = b * N * d.stride + h * d.head_dim, out = b * N * width + h * d.head_dim;
      const T* head_lse = lse + (b * d.heads + h) * N;
      const std::uint8_t* mask = keep ? keep + (b * d.heads + h) * N * N : nullptr;
      const Head<T> qh{q + in, d.stride}, kh{k + in, d.stride}, vh{v + in, d.stride}, gh{dy + out, width};
      weights_product<T>(d, scale, qh, kh, p);
      for (std::int64_t i = 0; i < N; ++i) exp_row(N, p + i * N, T(1), head_lse[i]);
      if (dv) {
        const T* dropped = p;
        if (mask) {
          for (std::int64_t i = 0; i < N * N; ++i) ds[i] = mask[i] ? p[i] * inverse_keep : 0;
          dropped = ds;
        }
        head_product<T>(d, T(1), transposed(dropped, N), gh, dv.to.data<T>() + in, d.stride, adds(dv));
      }
      if (!dq && !dk) continue;
      weights_product<T>(d, T(1), gh, vh, ds);
      if (mask)
        for (std::int64_t i = 0; i < N * N; ++i) ds[i] = mask[i] ? ds[i] * inverse_keep : 0;
      for (std::int64_t i = 0; i < N; ++i) {
        const T *gy = dy + out + i * width, *yy = y + out + i * width;
        const T inner = sum<T>(d.head_dim, [&](auto c) { return gy[c] * yy[c]; });
        for (std::int64_t j = 0; j < N; ++j) ds[i * N + j] = p[i * N + j] * (ds[i * N + j] - inner);
      }
      if (dq) head_product<T>(d, scale, plain<T>(ds, N), kh, dq.to.data<T>() + in, d.stride, adds(dq));
      if (dk) head_product<T>(d, scale, transposed<T>(ds, N), qh, dk.to.data<T>() + in, d.stride, adds(dk));
    }
}

}  // namespace

void CpuBackend::attention(AttentionDims d, Tensor q, Tensor k, Tensor v, Tensor keep, double rate, Tensor y,
                           Tensor lse) {
  if (q.dtype() == DType::bf16) return attention_bf16(d, q, k, v, keep, rate, y, lse);
  for_param_type("attention", q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    attention_forward<T>(d, q.data<T>(), k.data<T>(), v.data<T>(), keep.data<std::uint8_t>(), rate, y.data<T>(),
                         lse.data<T>());
  });
}

void CpuBackend::attention_backward(AttentionDims d, Tensor dy, Tensor q, Tensor k, Tensor v, Tensor keep, double rate,
                                    Tensor y, Tensor lse, Gradient dq, Gradient dk, Gradient dv) {
  if (q.dtype() == DType::bf16) return attention_bf16_backward(d, dy, q, k, v, keep, rate, y, lse, dq, dk, dv);
  for_param_type("attention", q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    attention_gradients<T>(d, dy.data<T>(), q.data<T>(), k.data<T>(), v.data<T>(), keep.data<std::uint8_t>(), rate,
                           y.data<T>(), lse.data<T>(), dq, dk, dv);
  });
}

}  // namespace normlab
