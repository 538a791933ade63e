// Multi-head attention a head at a time: the [N, N] weights of one head live in scratch that stays in the cache, and
// are made again on the way back from the kept log-sum-exp of each row.
#include "core/cpu/kernel.h"
#include "core/cpu/product.h"
#include "core/cpu/vector_exp.h"
#include "core/cpu/vector_math.h"

namespace normlab {
using namespace cpu;
namespace {

/// One head of one image, [tokens, head_dim] with `stride` values from token to token, as Acc<T>: in place for float
/// and double, a widened copy for bf16.
template <class T>
struct HeadView {
  using A = Acc<T>;
  const A* data;
  std::int64_t stride;
  HeadView(Slot slot, const AttentionDims& d, const T* x, std::int64_t from_stride) {
    if constexpr (std::is_same_v<T, A>) {
      data = x;
      stride = from_stride;
    } else {
      A* wide = scratch<A>(slot, d.tokens * d.head_dim);
      for (std::int64_t n = 0; n < d.tokens; ++n)
        for (std::int64_t c = 0; c < d.head_dim; ++c) wide[n * d.head_dim + c] = A(x[n * from_stride + c]);
      data = wide;
      stride = d.head_dim;
    }
  }
};

/// weights [N, N] = alpha a b^T of two heads.
template <class T>
void weights_product(const AttentionDims& d, Acc<T> alpha, const HeadView<T>& a, const HeadView<T>& b,
                     Acc<T>* weights) {
  product<Acc<T>>({d.tokens, d.tokens, d.head_dim, plain(a.data, a.stride), transposed(b.data, b.stride), weights,
                   d.tokens, false, alpha});
}

/// to [N, head_dim] (+)= alpha W b for one head, W the weights [N, N] as given or transposed.
template <class T>
void head_product(const AttentionDims& d, Acc<T> alpha, Factor<Acc<T>> weights, const HeadView<T>& b, T* to,
                  std::int64_t to_stride, bool add) {
  using A = Acc<T>;
  Product<A> p{d.tokens, d.head_dim, d.tokens, weights, plain(b.data, b.stride), nullptr, to_stride, add, alpha};
  if constexpr (std::is_same_v<T, A>) {
    p.c = to;
    product(p);
  } else {
    p.c = scratch<A>(Slot::e, d.tokens * d.head_dim);
    p.c_row = d.head_dim;
    p.add = false;
    product(p);
    for (std::int64_t n = 0; n < d.tokens; ++n)
      for (std::int64_t c = 0; c < d.head_dim; ++c) put(to[n * to_stride + c], p.c[n * d.head_dim + c], add);
  }
}

/// row [n] = exp(row - shift), shift at least the largest; returns the sum.
template <class A>
A exp_row(std::int64_t n, A* row, A shift) {
  if constexpr (std::is_same_v<A, float>) {
    constexpr std::int64_t kWide = kLanes<float>;
    Floats sums = {};
    std::int64_t j = 0;
    for (; j + kWide <= n; j += kWide) {
      const Floats e = exp_nonpositive(load(row + j) - shift);
      store(row + j, e);
      sums += e;
    }
    float total = 0;
    for (std::int64_t i = 0; i < kWide; ++i) total += sums[i];
    if (j < n) {
      alignas(64) float edge[kWide] = {};
      std::copy(row + j, row + n, edge);
      store(edge, exp_nonpositive(load(edge) - shift));
      std::copy(edge, edge + (n - j), row + j);
      for (std::int64_t i = 0; i < n - j; ++i) total += edge[i];
    }
    return total;
  } else {
    for (std::int64_t j = 0; j < n; ++j) row[j] -= shift;
    vector_exp(n, row, row);
    return sum<A>(n, [&](auto j) { return row[j]; });
  }
}

/// Rows of scores to softmax weights, in place; lse [N] gets the log of each row's sum of exponentials.
template <class A>
void softmax_rows(std::int64_t N, A* p, A* lse) {
  for (std::int64_t i = 0; i < N; ++i) {
    A* row = p + i * N;
    A top = row[0];
#pragma omp simd reduction(max : top)
    for (std::int64_t j = 1; j < N; ++j) top = std::max(top, row[j]);
    const A total = exp_row(N, row, top), inverse = 1 / total;
    for (std::int64_t j = 0; j < N; ++j) row[j] *= inverse;
    lse[i] = top + std::log(total);
  }
}

template <class T>
void attention_forward(AttentionDims d, const T* q, const T* k, const T* v, const std::uint8_t* keep, double rate, T* y,
                       Acc<T>* lse) {
  using A = Acc<T>;
  const std::int64_t N = d.tokens, width = d.width();
  const A scale = A(1 / std::sqrt(double(d.head_dim))), inverse_keep = A(1 / (1 - rate));
  A* p = scratch<A>(Slot::a, N * N);
  for (std::int64_t b = 0; b < d.batch; ++b)
    for (std::int64_t h = 0; h < d.heads; ++h) {
      const std::int64_t in = b * N * d.stride + h * d.head_dim, out = b * N * width + h * d.head_dim;
      weights_product<T>(d, scale, {Slot::b, d, q + in, d.stride}, {Slot::c, d, k + in, d.stride}, p);
      softmax_rows(N, p, lse + (b * d.heads + h) * N);
      if (keep) {
        const std::uint8_t* mask = keep + (b * d.heads + h) * N * N;
        for (std::int64_t i = 0; i < N * N; ++i) p[i] = mask[i] ? p[i] * inverse_keep : 0;
      }
      head_product<T>(d, A(1), plain<A>(p, N), {Slot::b, d, v + in, d.stride}, y + out, width, false);
    }
}

/// With P the weights, M = keep / (1 - rate) and dP = (dy v^T) M:  dv = (P M)^T dy,  dS = P (dP - rowsum(dP P)),
/// dq = dS k / sqrt(d),  dk = dS^T q / sqrt(d). The row sums equal dy . y.
template <class T>
void attention_gradients(AttentionDims d, const T* dy, const T* q, const T* k, const T* v, const std::uint8_t* keep,
                         double rate, const T* y, const Acc<T>* lse, Gradient dq, Gradient dk, Gradient dv) {
  using A = Acc<T>;
  const std::int64_t N = d.tokens, width = d.width();
  const A scale = A(1 / std::sqrt(double(d.head_dim))), inverse_keep = A(1 / (1 - rate));
  A* p = scratch<A>(Slot::a, 2 * N * N);
  A* ds = p + N * N;
  for (std::int64_t b = 0; b < d.batch; ++b)
    for (std::int64_t h = 0; h < d.heads; ++h) {
      const std::int64_t in = b * N * d.stride + h * d.head_dim, out = b * N * width + h * d.head_dim;
      const A* head_lse = lse + (b * d.heads + h) * N;
      const std::uint8_t* mask = keep ? keep + (b * d.heads + h) * N * N : nullptr;
      const HeadView<T> qh(Slot::b, d, q + in, d.stride), kh(Slot::c, d, k + in, d.stride);
      weights_product<T>(d, scale, qh, kh, p);
      for (std::int64_t i = 0; i < N; ++i) exp_row(N, p + i * N, head_lse[i]);
      const HeadView<T> gh(Slot::d, d, dy + out, width);
      if (dv) {
        const A* dropped = p;
        if (mask) {
          for (std::int64_t i = 0; i < N * N; ++i) ds[i] = mask[i] ? p[i] * inverse_keep : 0;
          dropped = ds;
        }
        head_product<T>(d, A(1), transposed(dropped, N), gh, dv.to.data<T>() + in, d.stride, adds(dv));
      }
      if (!dq && !dk) continue;
      // For bf16 v takes the scratch of q, which is made again below.
      weights_product<T>(d, A(1), gh, {Slot::b, d, v + in, d.stride}, ds);
      if (mask)
        for (std::int64_t i = 0; i < N * N; ++i) ds[i] = mask[i] ? ds[i] * inverse_keep : 0;
      for (std::int64_t i = 0; i < N; ++i) {
        const T *gy = dy + out + i * width, *yy = y + out + i * width;
        const A inner = sum<A>(d.head_dim, [&](auto c) { return A(gy[c]) * A(yy[c]); });
        for (std::int64_t j = 0; j < N; ++j) ds[i * N + j] = p[i * N + j] * (ds[i * N + j] - inner);
      }
      if (dq) head_product<T>(d, scale, plain<A>(ds, N), kh, dq.to.data<T>() + in, d.stride, adds(dq));
      if (dk)
        head_product<T>(d, scale, transposed<A>(ds, N), {Slot::b, d, q + in, d.stride}, dk.to.data<T>() + in, d.stride,
                        adds(dk));
    }
}

}  // namespace

void CpuBackend::attention(AttentionDims d, Tensor q, Tensor k, Tensor v, Tensor keep, double rate, Tensor y,
                           Tensor lse) {
  if (q.dtype() == DType::bf16) return attention_bf16(d, q, k, v, keep, rate, y, lse);
  for_param_type("attention", q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    attention_forward<T>(d, q.data<T>(), k.data<T>(), v.data<T>(), keep.data<std::uint8_t>(), rate, y.data<T>(),
                         lse.data<Acc<T>>());
  });
}

void CpuBackend::attention_backward(AttentionDims d, Tensor dy, Tensor q, Tensor k, Tensor v, Tensor keep, double rate,
                                    Tensor y, Tensor lse, Gradient dq, Gradient dk, Gradient dv) {
  if (q.dtype() == DType::bf16) return attention_bf16_backward(d, dy, q, k, v, keep, rate, y, lse, dq, dk, dv);
  for_param_type("attention", q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    attention_gradients<T>(d, dy.data<T>(), q.data<T>(), k.data<T>(), v.data<T>(), keep.data<std::uint8_t>(), rate,
                           y.data<T>(), lse.data<Acc<T>>(), dq, dk, dv);
  });
}

}  // namespace normlab
