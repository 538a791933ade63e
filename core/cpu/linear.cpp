// Dense layers: one product each way, bias and GELU in the pass after it. bf16 products widen to float.
#include "core/cpu/gelu.h"
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

/// y = x w^T in Acc<T>: into y itself where that is its type, otherwise into scratch.
template <class T>
Acc<T>* product(LinearDims d, const T* x, const Param<T>* w, T* y) {
  using A = Acc<T>;
  A* wide;
  if constexpr (std::is_same_v<T, A>)
    wide = y;
  else
    wide = scratch<A>(Slot::b, d.rows * d.out);
  gemm(false, true, d.rows, d.out, d.in, A(1), widen<T>(Slot::a, x, d.rows * d.in), d.in, w, d.in, A(0), wide, d.out);
  return wide;
}

template <class T>
void linear_forward(LinearDims d, const T* x, const Param<T>* w, const Param<T>* b, T* y) {
  const Acc<T>* wide = product<T>(d, x, w, y);
  if (b) {
    for (std::int64_t r = 0; r < d.rows; ++r)
      for (std::int64_t c = 0; c < d.out; ++c) y[r * d.out + c] = T(wide[r * d.out + c] + b[c]);
  } else if constexpr (!std::is_same_v<T, Acc<T>>) {
    for (std::int64_t i = 0; i < d.rows * d.out; ++i) y[i] = T(wide[i]);
  }
}

template <class T>
void linear_gradients(LinearDims d, const T* dy, const T* x, const Param<T>* w, Gradient dx, Gradient dw, Gradient db) {
  using A = Acc<T>;
  const A* g = widen<T>(Slot::a, dy, d.rows * d.out);
  if (dx) {
    T* out = dx.to.data<T>();
    if constexpr (std::is_same_v<T, A>) {
      gemm(false, false, d.rows, d.in, d.out, A(1), g, d.out, w, d.in, A(adds(dx)), out, d.in);
    } else {
      A* wide = scratch<A>(Slot::b, d.rows * d.in);
      gemm(false, false, d.rows, d.in, d.out, A(1), g, d.out, w, d.in, A(0), wide, d.in);
      for (std::int64_t i = 0; i < d.rows * d.in; ++i) put(out[i], wide[i], adds(dx));
    }
  }
  if (dw) {
    const A* wide_x = widen<T>(Slot::b, x, d.rows * d.in);
    gemm(true, false, d.out, d.in, d.rows, A(1), g, d.out, wide_x, d.in, A(adds(dw)), dw.to.data<Param<T>>(), d.in);
  }
  sum_columns<Param<T>>(d.rows, d.out, Slot::c, db, [&](auto r, auto c) { return g[r * d.out + c]; });
}

}  // namespace

void CpuBackend::linear(LinearDims d, Tensor x, Tensor w, Tensor b, Tensor y) {
  for_type("linear", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    linear_forward<T>(d, x.data<T>(), w.data<Param<T>>(), b.data<Param<T>>(), y.data<T>());
  });
}

void CpuBackend::linear_backward(LinearDims d, Tensor dy, Tensor x, Tensor w, Gradient dx, Gradient dw, Gradient db) {
  for_type("linear", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    linear_gradients<T>(d, dy.data<T>(), x.data<T>(), w.data<Param<T>>(), dx, dw, db);
  });
}

void CpuBackend::linear_gelu(LinearDims d, GeluForm form, Tensor x, Tensor w, Tensor b, Tensor h, Tensor y) {
  for_type("linear_gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T *hidden = h.data<T>(), *out = y.data<T>();
    const Param<T>* bias = b.data<Param<T>>();
    const Acc<T>* wide = product<T>(d, x.data<T>(), w.data<Param<T>>(), hidden);
    for (std::int64_t r = 0; r < d.rows; ++r) {  // a row is still in the cache when GELU reads it again
      T* hr = hidden + r * d.out;
      for (std::int64_t c = 0; c < d.out; ++c) hr[c] = T(wide[r * d.out + c] + (bias ? bias[c] : 0));
      gelu_forward<T>(form, d.out, hr, out + r * d.out);
    }
  });
}

void CpuBackend::linear_gelu_backward(LinearDims d, GeluForm form, Tensor dy, Tensor x, Tensor w, Tensor h, Gradient dx,
                                      Gradient dw, Gradient db) {
  for_type("linear_gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* dh = scratch<T>(Slot::d, d.rows * d.out);
    gelu_gradient<T>(form, d.rows * d.out, dy.data<T>(), h.data<T>(), dh, false);
    linear_gradients<T>(d, dh, x.data<T>(), w.data<Param<T>>(), dx, dw, db);
  });
}

}  // namespace normlab
