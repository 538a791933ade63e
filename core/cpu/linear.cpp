// Dense layers in float and double: one product in each direction, with bias, residual and GELU applied to each of its
// tiles. For bf16 see linear_bf16.cpp.
#include "core/cpu/gelu.h"
#include "core/cpu/kernel.h"
#include "core/cpu/product.h"

namespace normlab {
using namespace cpu;
namespace {

template <class T>
Product<T> forward_product(LinearDims d, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
  return {.m = d.rows,
          .n = d.out,
          .k = d.in,
          .a = plain(x.data<T>(), d.in),
          .b = transposed(w.data<T>(), d.in),
          .c = y.data<T>(),
          .c_row = d.out,
          .bias = b.data<T>(),
          .panels = w.panels<T>()};
}

/// Prefetches the next tile for writing, which is not in any cache yet.
template <class T>
void prefetch_tile(const T* tile, std::int64_t rows, std::int64_t columns, std::int64_t stride) noexcept {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < columns; i += kLanes<T>) __builtin_prefetch(tile + r * stride + i, 1);
}

/// `dy`: the gradient of the product, whatever of.dy is.
template <class T>
void linear_gradients(LinearDims d, const LinearBackward& args, const T* dy) {
  const Gradient &dx = args.dx, &dw = args.dw;
  if (dx)
    product<T>({d.rows, d.in, d.out, plain(dy, d.out), plain(args.w.data<T>(), d.in), dx.to.data<T>(), d.in, adds(dx)});
  if (dw)
    product<T>(
        {d.out, d.in, d.rows, transposed(dy, d.out), plain(args.x.data<T>(), d.in), dw.to.data<T>(), d.in, adds(dw)});
  sum_columns<T>(d.rows, d.out, args.db, [&](auto r, auto c) { return dy[r * d.out + c]; });
}

}  // namespace

void CpuBackend::linear(LinearDims d, Tensor x, Tensor w, Tensor b, Tensor residual, Tensor y) {
  if (x.dtype() == DType::bf16) return linear_bf16(d, x, w, b, residual, y);
  for_param_type("linear", x.dtype(), [&]<class T>(Type<T>) {
    Product<T> p = forward_product<T>(d, x, w, b, y);
    p.plus = residual.data<T>();
    product(p);
  });
}

void CpuBackend::linear_backward(LinearDims d, const LinearBackward& args) {
  if (args.x.dtype() == DType::bf16) return linear_bf16_backward(d, args);
  for_param_type("linear", args.x.dtype(), [&]<class T>(Type<T>) { linear_gradients<T>(d, args, args.dy.data<T>()); });
}

void CpuBackend::linear_gelu(LinearDims d, GeluForm form, Tensor x, Tensor w, Tensor b, Tensor slope, Tensor y) {
  if (x.dtype() == DType::bf16) return linear_gelu_bf16(d, form, x, w, b, slope, y);
  for_param_type("linear_gelu", x.dtype(), [&]<class T>(Type<T>) {
    T *out = y.data<T>(), *rise = slope.data<T>();
    product(forward_product<T>(d, x, w, b, y),
            [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
              const std::int64_t at = row * d.out + column;
              if (rise) prefetch_tile(rise + at + rows * d.out, rows, columns, d.out);
              gelu_block(form, rows, columns, d.out, out + at, out + at, rise ? rise + at : nullptr);
            });
  });
}

void CpuBackend::linear_gelu_backward(LinearDims d, GeluForm, const LinearBackward& args) {
  if (args.x.dtype() == DType::bf16) return linear_gelu_bf16_backward(d, args);
  for_param_type("linear_gelu", args.x.dtype(), [&]<class T>(Type<T>) {
    const std::int64_t n = d.rows * d.out;
    const T *up = args.dy.data<T>(), *rise = args.saved.data<T>();
    const Scratch<T> dh(n);
    for (std::int64_t i = 0; i < n; ++i) dh[i] = up[i] * rise[i];
    linear_gradients<T>(d, args, dh);
  });
}

std::int64_t CpuBackend::panel_rows(DType dtype) const {
  return dtype == DType::f32 ? detail::kPanel<float> : dtype == DType::f64 ? detail::kPanel<double> : 0;
}

void CpuBackend::pack_panels(Tensor w, Tensor panels) {
  for_param_type("pack_panels", w.dtype(), [&]<class T>(Type<T>) {
    constexpr std::int64_t kRows = detail::kPanel<T>;
    const std::int64_t out = w.shape()[0], in = w.size() / out;
    for (std::int64_t j = 0; j + kRows <= out; j += kRows)
      detail::pack_panel(transposed<T>(w.data<T>(), in), 0, in, j, kRows, panels.data<T>() + j * in);
  });
}

}  // namespace normlab
