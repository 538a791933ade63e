// Multi-head attention a head at a time: the [N, N] weights of one head live in scratch that stays in the cache, and
// are made again on the way back from the kept log-sum-exp of each row.
#include "core/cpu/kernel.h"
#include "core/cpu/vector_math.h"

namespace normlab {
using namespace cpu;
namespace {

/// One head of one image out of [B, N, H d], as Acc<T>: in place for float and double, a widened copy for bf16.
template <class T>
struct HeadView {
  using A = Acc<T>;
  const A* data;
  std::int64_t stride;
  HeadView(Slot slot, const T* x, std::int64_t tokens, std::int64_t dim, std::int64_t width) {
    if constexpr (std::is_same_v<T, A>) {
      data = x;
      stride = width;
    } else {
      A* wide = scratch<A>(slot, tokens * dim);
      for (std::int64_t n = 0; n < tokens; ++n)
        for (std::int64_t c = 0; c < dim; ++c) wide[n * dim + c] = A(x[n * width + c]);
      data = wide;
      stride = dim;
    }
  }
};

/// target [tokens, dim] (stride width) (+)= op(a) b for one head.
template <class T>
void head_product(bool transpose, AttentionDims d, Acc<T> alpha, const Acc<T>* weights, const Acc<T>* b,
                  std::int64_t stride, T* target, bool add) {
  using A = Acc<T>;
  const std::int64_t width = d.heads * d.head_dim;
  if constexpr (std::is_same_v<T, A>) {
    gemm(transpose, false, d.tokens, d.head_dim, d.tokens, alpha, weights, d.tokens, b, stride, A(add), target, width);
  } else {
    A* wide = scratch<A>(Slot::e, d.tokens * d.head_dim);
    gemm(transpose, false, d.tokens, d.head_dim, d.tokens, alpha, weights, d.tokens, b, stride, A(0), wide, d.head_dim);
    for (std::int64_t n = 0; n < d.tokens; ++n)
      for (std::int64_t c = 0; c < d.head_dim; ++c) put(target[n * width + c], wide[n * d.head_dim + c], add);
  }
}

template <class T>
void attention_forward(AttentionDims d, const T* q, const T* k, const T* v, const std::uint8_t* keep, double rate, T* y,
                       Acc<T>* lse) {
  using A = Acc<T>;
  const std::int64_t N = d.tokens, width = d.heads * d.head_dim;
  const A scale = A(1 / std::sqrt(double(d.head_dim))), inverse_keep = A(1 / (1 - rate));
  A* p = scratch<A>(Slot::a, N * N);
  for (std::int64_t b = 0; b < d.batch; ++b)
    for (std::int64_t h = 0; h < d.heads; ++h) {
      const std::int64_t at = b * N * width + h * d.head_dim;
      const HeadView<T> qh(Slot::b, q + at, N, d.head_dim, width), kh(Slot::c, k + at, N, d.head_dim, width);
      gemm(false, true, N, N, d.head_dim, scale, qh.data, qh.stride, kh.data, kh.stride, A(0), p, N);
      A* head_lse = lse + (b * d.heads + h) * N;
      for (std::int64_t i = 0; i < N; ++i) {
        A top = p[i * N];
#pragma omp simd reduction(max : top)
        for (std::int64_t j = 1; j < N; ++j) top = std::max(top, p[i * N + j]);
        for (std::int64_t j = 0; j < N; ++j) p[i * N + j] -= top;
        head_lse[i] = top;
      }
      vector_exp(N * N, p, p);
      for (std::int64_t i = 0; i < N; ++i) {
        const A total = sum<A>(N, [&](auto j) { return p[i * N + j]; });
        const A inverse = 1 / total;
        for (std::int64_t j = 0; j < N; ++j) p[i * N + j] *= inverse;
        head_lse[i] += std::log(total);
      }
      if (keep) {
        const std::uint8_t* mask = keep + (b * d.heads + h) * N * N;
        for (std::int64_t i = 0; i < N * N; ++i) p[i] = mask[i] ? p[i] * inverse_keep : 0;
      }
      const HeadView<T> vh(Slot::b, v + at, N, d.head_dim, width);
      head_product<T>(false, d, A(1), p, vh.data, vh.stride, y + at, false);
    }
}

/// With P the weights, M = keep / (1 - rate) and dP = (dy v^T) M:  dv = (P M)^T dy,  dS = P (dP - rowsum(dP P)),
/// dq = dS k / sqrt(d),  dk = dS^T q / sqrt(d). The row sums equal dy . y.
template <class T>
void attention_gradients(AttentionDims d, const T* dy, const T* q, const T* k, const T* v, const std::uint8_t* keep,
                         double rate, const T* y, const Acc<T>* lse, Gradient dq, Gradient dk, Gradient dv) {
  using A = Acc<T>;
  const std::int64_t N = d.tokens, width = d.heads * d.head_dim;
  const A scale = A(1 / std::sqrt(double(d.head_dim))), inverse_keep = A(1 / (1 - rate));
  A* p = scratch<A>(Slot::a, 2 * N * N);
  A* ds = p + N * N;
  for (std::int64_t b = 0; b < d.batch; ++b)
    for (std::int64_t h = 0; h < d.heads; ++h) {
      const std::int64_t at = b * N * width + h * d.head_dim;
      const A* head_lse = lse + (b * d.heads + h) * N;
      const std::uint8_t* mask = keep ? keep + (b * d.heads + h) * N * N : nullptr;
      const HeadView<T> qh(Slot::b, q + at, N, d.head_dim, width), kh(Slot::c, k + at, N, d.head_dim, width);
      gemm(false, true, N, N, d.head_dim, scale, qh.data, qh.stride, kh.data, kh.stride, A(0), p, N);
      for (std::int64_t i = 0; i < N; ++i)
        for (std::int64_t j = 0; j < N; ++j) p[i * N + j] -= head_lse[i];
      vector_exp(N * N, p, p);
      const HeadView<T> gh(Slot::d, dy + at, N, d.head_dim, width);
      if (dv) {
        const A* dropped = p;
        if (mask) {
          for (std::int64_t i = 0; i < N * N; ++i) ds[i] = mask[i] ? p[i] * inverse_keep : 0;
          dropped = ds;
        }
        head_product<T>(true, d, A(1), dropped, gh.data, gh.stride, dv.to.data<T>() + at, adds(dv));
      }
      if (!dq && !dk) continue;
      {
        // v takes the scratch of q, which is made again below where it was a copy.
        const HeadView<T> vh(Slot::b, v + at, N, d.head_dim, width);
        gemm(false, true, N, N, d.head_dim, A(1), gh.data, gh.stride, vh.data, vh.stride, A(0), ds, N);
      }
      if (mask)
        for (std::int64_t i = 0; i < N * N; ++i) ds[i] = mask[i] ? ds[i] * inverse_keep : 0;
      for (std::int64_t i = 0; i < N; ++i) {
        const T *gy = dy + at + i * width, *yy = y + at + i * width;
        const A inner = sum<A>(d.head_dim, [&](auto c) { return A(gy[c]) * A(yy[c]); });
        for (std::int64_t j = 0; j < N; ++j) ds[i * N + j] = p[i * N + j] * (ds[i * N + j] - inner);
      }
      if (dq) head_product<T>(false, d, scale, ds, kh.data, kh.stride, dq.to.data<T>() + at, adds(dq));
      if (dk) {
        const HeadView<T> again(Slot::b, q + at, N, d.head_dim, width);
        head_product<T>(true, d, scale, ds, again.data, again.stride, dk.to.data<T>() + at, adds(dk));
      }
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
