// Attention of one head in float and double. Its [N, N] weights live in scratch memory that stays in the cache; the
// backward pass recomputes them from the kept log-sum-exp of each row.
#pragma once

#include "core/cpu/kernel.h"
#include "core/cpu/product.h"
#include "core/cpu/vector_exp.h"

namespace normlab::cpu {

/// One head of one image: [tokens, head_dim], `stride` values from token to token.
template <class T>
struct Head {
  const T* data;
  std::int64_t stride;
};

/// weights [N, N] = alpha a b^T (+ `plus` [N, N], if not null).
template <class T>
static void weights_product(const AttentionDims& d, T alpha, Head<T> a, Head<T> b, T* weights,
                            const T* plus = nullptr) {
  product<T>({d.tokens, d.tokens, d.head_dim, plain(a.data, a.stride), transposed(b.data, b.stride), weights, d.tokens,
              false, alpha, nullptr, plus});
}

/// to [N, head_dim] (+)= alpha W b, where W is the weights [N, N], plain or transposed.
template <class T>
static void head_product(const AttentionDims& d, T alpha, Factor<T> weights, Head<T> b, T* to, std::int64_t to_stride,
                         bool add) {
  product<T>({d.tokens, d.head_dim, d.tokens, weights, plain(b.data, b.stride), to, to_stride, add, alpha});
}

/// Replaces rows of scores by their exponentials. inverse [N] gets the factors that turn them into weights, lse [N] the
/// logarithms of their sums.
template <class T>
static void softmax_rows(std::int64_t N, T* p, T* inverse, T* lse) {
  for (std::int64_t i = 0; i < N; ++i) {
    T* row = p + i * N;
    const T top = row_max(N, row);
    const T total = exp_row(N, row, T(1), top);
    inverse[i] = 1 / total;
    lse[i] = top + std::log(total);
  }
}

/// What all heads of a call share.
template <class T>
struct HeadWork {
  AttentionDims d;
  double rate;
  T scale() const { return T(1 / std::sqrt(double(d.head_dim))); }
  T inverse_keep() const { return T(1 / (1 - rate)); }
};

/// y [N, head_dim] = softmax(q k^T / sqrt(d) + bias) v, lse [N]. bias [N, N] and keep [N, N] may be null. p is scratch
/// for N N + N values. The rows of y are `width` apart.
template <class T>
static void forward_head(const HeadWork<T>& work, Head<T> q, Head<T> k, Head<T> v, const T* bias,
                         const std::uint8_t* keep, T* p, T* y, T* lse) {
  const AttentionDims& d = work.d;
  const std::int64_t N = d.tokens, width = d.width();
  T* inverse = p + N * N;
  weights_product<T>(d, work.scale(), q, k, p, bias);
  softmax_rows(N, p, inverse, lse);
  if (keep)
    for (std::int64_t i = 0; i < N * N; ++i) p[i] = keep[i] ? p[i] * work.inverse_keep() : 0;
  head_product<T>(d, T(1), plain<T>(p, N), v, y, width, false);
  // Divides the head's result by the weights' sums, since it has fewer values than the weights.
  for (std::int64_t i = 0; i < N; ++i)
    for (std::int64_t c = 0; c < d.head_dim; ++c) y[i * width + c] *= inverse[i];
}

/// Where one head's gradients go; each may be null.
template <class T>
struct HeadGradients {
  T *dq, *dk, *dv;
  bool add_q, add_k, add_v;
};

/// With P the weights, M = keep / (1 - rate) and dP = (dy v^T) M:
///   dv = (P M)^T dy,  dS = P (dP - rowsum(dP P)),  dq = dS k / sqrt(d),  dk = dS^T q / sqrt(d).
/// The row sums equal dy . y. p is scratch for 2 N N values; its second half holds dS afterwards if `scores` is set or
/// dq or dk is wanted.
template <class T>
static void head_gradients(const HeadWork<T>& work, Head<T> dy, Head<T> q, Head<T> k, Head<T> v, const T* bias,
                           const std::uint8_t* keep, const T* y, const T* lse, T* p, bool scores,
                           const HeadGradients<T>& to) {
  const AttentionDims& d = work.d;
  const std::int64_t N = d.tokens, width = d.width();
  const T inverse_keep = work.inverse_keep();
  T* ds = p + N * N;
  weights_product<T>(d, work.scale(), q, k, p, bias);
  for (std::int64_t i = 0; i < N; ++i) exp_row(N, p + i * N, T(1), lse[i]);
  if (to.dv) {
    const T* dropped = p;
    if (keep) {
      for (std::int64_t i = 0; i < N * N; ++i) ds[i] = keep[i] ? p[i] * inverse_keep : 0;
      dropped = ds;
    }
    head_product<T>(d, T(1), transposed(dropped, N), dy, to.dv, d.stride, to.add_v);
  }
  if (!to.dq && !to.dk && !scores) return;
  weights_product<T>(d, T(1), dy, v, ds);
  if (keep)
    for (std::int64_t i = 0; i < N * N; ++i) ds[i] = keep[i] ? ds[i] * inverse_keep : 0;
  for (std::int64_t i = 0; i < N; ++i) {
    const T *gy = dy.data + i * width, *yy = y + i * width;
    const T inner = sum<T>(d.head_dim, [&](auto c) { return gy[c] * yy[c]; });
    for (std::int64_t j = 0; j < N; ++j) ds[i * N + j] = p[i * N + j] * (ds[i * N + j] - inner);
  }
  if (to.dq) head_product<T>(d, work.scale(), plain<T>(ds, N), k, to.dq, d.stride, to.add_q);
  if (to.dk) head_product<T>(d, work.scale(), transposed<T>(ds, N), q, to.dk, d.stride, to.add_k);
}

/// The gradient's values from `at` on; null if it is not wanted.
template <class T>
static T* into(const Gradient& g, std::int64_t at) {
  return g ? g.to.data<T>() + at : nullptr;
}

}  // namespace normlab::cpu
