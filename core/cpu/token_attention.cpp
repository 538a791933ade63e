// Attention from one token of each image to all its tokens, such as a class token that alone represents its image. A
// head takes only 2 N d multiply-adds, too few for matrix products.
#include "core/cpu/kernel.h"
#include "core/cpu/vector_exp.h"

namespace normlab {
using namespace cpu;
namespace {

/// Head h of image b: its offsets in q and y, in k and v, and in the weights.
struct TokenHead {
  std::int64_t token, tokens, weights;
  TokenHead(const AttentionDims& d, std::int64_t i)
      : token(i * d.head_dim),
        tokens(i / d.heads * d.tokens * d.stride + i % d.heads * d.head_dim),
        weights(i * d.tokens) {}
};

template <class A>
A scale_of(const AttentionDims& d) {
  return A(1 / std::sqrt(double(d.head_dim)));
}

template <class A, class T>
A dot(std::int64_t n, const T* a, const T* b) {
  return sum<A>(n, [&](auto c) { return A(a[c]) * A(b[c]); });
}

template <class T>
void forward(const AttentionDims& d, const TokenAttention& args) {
  using A = Acc<T>;
  const Scratch<A> total(d.head_dim);
  for (std::int64_t i = 0; i < d.batch * d.heads; ++i) {
    const TokenHead at(d, i);
    const T *q = args.q.data<T>() + at.token, *k = args.k.data<T>() + at.tokens, *v = args.v.data<T>() + at.tokens;
    A* weights = args.weights.data<A>() + at.weights;
    for (std::int64_t n = 0; n < d.tokens; ++n) weights[n] = scale_of<A>(d) * dot<A>(d.head_dim, q, k + n * d.stride);
    const A inverse = 1 / exp_row(d.tokens, weights, A(1), row_max(d.tokens, weights));
    std::fill_n(total.begin(), d.head_dim, A(0));
    for (std::int64_t n = 0; n < d.tokens; ++n) {
      weights[n] *= inverse;
      for (std::int64_t c = 0; c < d.head_dim; ++c) total[c] += weights[n] * A(v[n * d.stride + c]);
    }
    for (std::int64_t c = 0; c < d.head_dim; ++c) args.y.data<T>()[at.token + c] = T(total[c]);
  }
}

/// With w the weights and dw = v dy:
///   dv = w dy,  ds = w (dw - sum(w dw)) / sqrt(d),  dq = sum(ds k),  dk = ds q.
template <class T>
void gradients(const AttentionDims& d, const TokenAttentionBackward& args) {
  using A = Acc<T>;
  const Scratch<A> total(d.head_dim), ds(d.tokens);
  for (std::int64_t i = 0; i < d.batch * d.heads; ++i) {
    const TokenHead at(d, i);
    const T *dy = args.dy.data<T>() + at.token, *q = args.q.data<T>() + at.token;
    const T *k = args.k.data<T>() + at.tokens, *v = args.v.data<T>() + at.tokens;
    const A* weights = args.weights.data<A>() + at.weights;
    for (std::int64_t n = 0; n < d.tokens; ++n) ds[n] = dot<A>(d.head_dim, dy, v + n * d.stride);
    const A mean = sum<A>(d.tokens, [&](auto n) { return weights[n] * ds[n]; });
    for (std::int64_t n = 0; n < d.tokens; ++n) ds[n] = weights[n] * (ds[n] - mean) * scale_of<A>(d);
    std::fill_n(total.begin(), d.head_dim, A(0));
    const auto put_rows = [&](const Gradient& to, const A* factors, const T* row) {
      if (!to) return;
      T* out = to.to.data<T>() + at.tokens;
      for (std::int64_t n = 0; n < d.tokens; ++n)
        for (std::int64_t c = 0; c < d.head_dim; ++c) put(out[n * d.stride + c], T(factors[n] * A(row[c])), adds(to));
    };
    put_rows(args.dv, weights, dy);
    put_rows(args.dk, ds, q);
    if (!args.dq) continue;
    for (std::int64_t n = 0; n < d.tokens; ++n)
      for (std::int64_t c = 0; c < d.head_dim; ++c) total[c] += ds[n] * A(k[n * d.stride + c]);
    for (std::int64_t c = 0; c < d.head_dim; ++c) put(args.dq.to.data<T>()[at.token + c], T(total[c]), adds(args.dq));
  }
}

}  // namespace

void CpuBackend::token_attention(AttentionDims d, const TokenAttention& args) {
  for_type("token_attention", args.q.dtype(), [&](auto type) { forward<typename decltype(type)::type>(d, args); });
}

void CpuBackend::token_attention_backward(AttentionDims d, const TokenAttentionBackward& args) {
  for_type("token_attention_backward", args.q.dtype(),
           [&](auto type) { gradients<typename decltype(type)::type>(d, args); });
}

}  // namespace normlab
