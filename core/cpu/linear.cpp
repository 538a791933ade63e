// Dense layers: one product each way, bias and GELU applied to each tile of it. bf16 products widen to float.
#include "core/cpu/gelu.h"
#include "core/cpu/kernel.h"
#include "core/cpu/product.h"

namespace normlab {
using namespace cpu;
namespace {

/// y = x w^T + b in Acc<T>, into y itself where that is its type, otherwise into scratch; done() as of product().
template <class T, class Done>
Acc<T>* multiply(LinearDims d, const T* x, const Param<T>* w, const Param<T>* b, T* y, Done&& done) {
  using A = Acc<T>;
  A* wide;
  if constexpr (std::is_same_v<T, A>)
    wide = y;
  else
    wide = scratch<A>(Slot::b, d.rows * d.out);
  const A* in = widen<T>(Slot::a, x, d.rows * d.in);
  product<A>({d.rows, d.out, d.in, plain(in, d.in), transposed(w, d.in), wide, d.out, false, A(1), b}, done);
  return wide;
}

template <class T>
void linear_forward(LinearDims d, const T* x, const Param<T>* w, const Param<T>* b, T* y) {
  const Acc<T>* wide = multiply<T>(d, x, w, b, y, [](auto, auto, auto, auto) {});
  if constexpr (!std::is_same_v<T, Acc<T>>)
    for (std::int64_t i = 0; i < d.rows * d.out; ++i) y[i] = T(wide[i]);
}

/// GELU of each tile of the product while it is in the first-level cache. `slope` may be null.
template <class T>
void linear_gelu_forward(LinearDims d, GeluForm form, const T* x, const Param<T>* w, const Param<T>* b, T* slope,
                         T* y) {
  const Acc<T>* wide = scratch<Acc<T>>(Slot::b, d.rows * d.out);
  const auto activate = [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
    for (std::int64_t r = row; r < row + rows; ++r) {
      const std::int64_t at = r * d.out + column;
      gelu_forward(form, columns, wide + at, y + at, slope ? slope + at : nullptr);
    }
  };
  if constexpr (std::is_same_v<T, Acc<T>>) {
    wide = y;
    multiply<T>(d, x, w, b, y, activate);
  } else {
    multiply<T>(d, x, w, b, y, activate);
  }
}

template <class T>
void linear_gradients(LinearDims d, const T* dy, const T* x, const Param<T>* w, Gradient dx, Gradient dw, Gradient db) {
  using A = Acc<T>;
  const A* g = widen<T>(Slot::a, dy, d.rows * d.out);
  if (dx) {
    T* out = dx.to.data<T>();
    Product<A> p{d.rows, d.in, d.out, plain(g, d.out), plain(w, d.in), nullptr, d.in, adds(dx)};
    if constexpr (std::is_same_v<T, A>) {
      p.c = out;
      product(p);
    } else {
      p.c = scratch<A>(Slot::b, d.rows * d.in);
      p.add = false;
      product(p);
      for (std::int64_t i = 0; i < d.rows * d.in; ++i) put(out[i], p.c[i], adds(dx));
    }
  }
  if (dw) {
    const A* wide_x = widen<T>(Slot::b, x, d.rows * d.in);
    product<A>(
        {d.out, d.in, d.rows, transposed(g, d.out), plain(wide_x, d.in), dw.to.data<Param<T>>(), d.in, adds(dw)});
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

void CpuBackend::linear_add(LinearDims d, Tensor x, Tensor w, Tensor b, Tensor residual, Tensor y) {
  for_type("linear_add", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    const T* r = residual.data<T>();
    T* out = y.data<T>();
    const Param<T>* bias = b.data<Param<T>>();
    if constexpr (std::is_same_v<T, A>) {
      product<A>({d.rows, d.out, d.in, plain(x.data<T>(), d.in), transposed(w.data<Param<T>>(), d.in), out, d.out,
                  false, A(1), bias, r});
    } else {
      const A* wide = multiply<T>(d, x.data<T>(), w.data<Param<T>>(), bias, out, [](auto, auto, auto, auto) {});
      for (std::int64_t i = 0; i < d.rows * d.out; ++i) out[i] = T(A(r[i]) + wide[i]);
    }
  });
}

void CpuBackend::linear_backward(LinearDims d, Tensor dy, Tensor x, Tensor w, Gradient dx, Gradient dw, Gradient db) {
  for_type("linear", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    linear_gradients<T>(d, dy.data<T>(), x.data<T>(), w.data<Param<T>>(), dx, dw, db);
  });
}

void CpuBackend::linear_gelu(LinearDims d, GeluForm form, Tensor x, Tensor w, Tensor b, Tensor slope, Tensor y) {
  for_type("linear_gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    linear_gelu_forward<T>(d, form, x.data<T>(), w.data<Param<T>>(), b.data<Param<T>>(), slope.data<T>(), y.data<T>());
  });
}

void CpuBackend::linear_gelu_backward(LinearDims d, Tensor dy, Tensor x, Tensor w, Tensor slope, Gradient dx,
                                      Gradient dw, Gradient db) {
  for_type("linear_gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t n = d.rows * d.out;
    const T *up = dy.data<T>(), *s = slope.data<T>();
    T* dh = scratch<T>(Slot::d, n);
    for (std::int64_t i = 0; i < n; ++i) dh[i] = T(Acc<T>(up[i]) * Acc<T>(s[i]));
    linear_gradients<T>(d, dh, x.data<T>(), w.data<Param<T>>(), dx, dw, db);
  });
}

}  // namespace normlab
