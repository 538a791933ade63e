// Dense layers in float and double: one product each way, bias and GELU in the pass after it. For bf16 see
// linear_bf16.cpp.
#include "core/cpu/gelu.h"
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

/// y = x w^T.
template <class T>
void product(LinearDims d, const T* x, const T* w, T* y) {
  gemm(false, true, d.rows, d.out, d.in, T(1), x, d.in, w, d.in, T(0), y, d.out);
}

template <class T>
void linear_gradients(LinearDims d, const T* dy, const T* x, const T* w, Gradient dx, Gradient dw, Gradient db) {
  if (dx) gemm(false, false, d.rows, d.in, d.out, T(1), dy, d.out, w, d.in, T(adds(dx)), dx.to.data<T>(), d.in);
  if (dw) gemm(true, false, d.out, d.in, d.rows, T(1), dy, d.out, x, d.in, T(adds(dw)), dw.to.data<T>(), d.in);
  sum_columns<T>(d.rows, d.out, Slot::c, db, [&](auto r, auto c) { return dy[r * d.out + c]; });
}

}  // namespace

void CpuBackend::linear(LinearDims d, Tensor x, Tensor w, Tensor b, Tensor y) {
  if (x.dtype() == DType::bf16) return linear_bf16(d, x, w, b, y);
  for_param_type("linear", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* out = y.data<T>();
    product(d, x.data<T>(), w.data<T>(), out);
    const T* bias = b.data<T>();
    if (!bias) return;
    for (std::int64_t r = 0; r < d.rows; ++r)
      for (std::int64_t c = 0; c < d.out; ++c) out[r * d.out + c] += bias[c];
  });
}

void CpuBackend::linear_backward(LinearDims d, Tensor dy, Tensor x, Tensor w, Gradient dx, Gradient dw, Gradient db) {
  if (x.dtype() == DType::bf16) return linear_bf16_backward(d, dy.data<bf16>(), x, w, dx, dw, db);
  for_param_type("linear", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    linear_gradients<T>(d, dy.data<T>(), x.data<T>(), w.data<T>(), dx, dw, db);
  });
}

void CpuBackend::linear_gelu(LinearDims d, GeluForm form, Tensor x, Tensor w, Tensor b, Tensor h, Tensor y) {
  if (x.dtype() == DType::bf16) return linear_gelu_bf16(d, form, x, w, b, h, y);
  for_param_type("linear_gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T *hidden = h.data<T>(), *out = y.data<T>();
    const T* bias = b.data<T>();
    product(d, x.data<T>(), w.data<T>(), hidden);
    for (std::int64_t r = 0; r < d.rows; ++r) {  // a row is still in the cache when GELU reads it again
      T* hr = hidden + r * d.out;
      if (bias)
        for (std::int64_t c = 0; c < d.out; ++c) hr[c] += bias[c];
      gelu_forward<T>(form, d.out, hr, out + r * d.out);
    }
  });
}

void CpuBackend::linear_gelu_backward(LinearDims d, GeluForm form, Tensor dy, Tensor x, Tensor w, Tensor h, Gradient dx,
                                      Gradient dw, Gradient db) {
  if (x.dtype() == DType::bf16) return linear_gelu_bf16_backward(d, form, dy, x, w, h, dx, dw, db);
  for_param_type("linear_gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* dh = scratch<T>(Slot::d, d.rows * d.out);
    gelu_gradient<T>(form, d.rows * d.out, dy.data<T>(), h.data<T>(), dh, false);
    linear_gradients<T>(d, dh, x.data<T>(), w.data<T>(), dx, dw, db);
  });
}

}  // namespace normlab
