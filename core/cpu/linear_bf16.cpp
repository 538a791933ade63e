// Dense layers on bf16 activations: the product adds the bias and rounds once; weight gradients stay float.
#include "core/cpu/bf16_products.h"
#include "core/cpu/gelu.h"
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

Bf16Product forward_product(LinearDims d, bool add, bool bias) {
  return {.m = d.rows, .n = d.out, .k = d.in, .transpose_b = true, .to = DType::bf16, .add = add, .bias = bias};
}
Bf16Product input_product(LinearDims d, bool add) {
  return {.m = d.rows, .n = d.in, .k = d.out, .to = DType::bf16, .add = add};
}
Bf16Product weight_product(LinearDims d, bool add) {
  return {.m = d.out, .n = d.in, .k = d.rows, .transpose_a = true, .to = DType::f32, .add = add};
}

/// The weight as products read it: the given bf16 copy, or the parameter rounded here.
class Rounded {
 public:
  explicit Rounded(const Tensor& w)
      : copy_(w.dtype() == DType::bf16 ? 0 : w.size()), values_(copy_ ? copy_ : w.data<bf16>()) {
    if (!copy_) return;
    const float* from = w.data<float>();
    each_vector<float>(w.size(), [&](std::int64_t i, auto lanes) { store(copy_ + i, load(from + i, lanes), lanes); });
  }
  operator const bf16*() const { return values_; }

 private:
  const Scratch<bf16> copy_;
  const bf16* const values_;
};

/// Column sums of dy: eight rows at a time in float, and these sums in double, as in sum_columns().
void add_column_sums(std::int64_t rows, std::int64_t cols, const bf16* dy, const Gradient& db) {
  constexpr std::int64_t kRows = 8;
  const Scratch<double> total(cols);
  std::fill_n(total.begin(), cols, 0.0);
  std::int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    const bf16* g = dy + r * cols;
    each_vector<float>(cols, [&](std::int64_t c, auto lanes) {
      Vec<float> few{};
      for (std::int64_t i = 0; i < kRows; ++i) few += load(g + i * cols + c, lanes);
      for (std::int64_t j = 0; j < lanes.count(); ++j) total[c + j] += double(few[j]);
    });
  }
  for (; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) total[c] += double(float(dy[r * cols + c]));
  put_sums<float>(cols, total, db);
}

}  // namespace

void CpuBackend::prepare_linear(LinearDims d, DType dtype, bool b) {
  if (dtype != DType::bf16 || bf16_products_ == Bf16Products::emulated) return;
  for (const bool add : {false, true}) {
    bf16_prepare(forward_product(d, add, b));
    bf16_prepare(input_product(d, add));
    bf16_prepare(weight_product(d, add));
  }
}

void CpuBackend::linear_bf16(LinearDims d, Tensor x, Tensor w, Tensor b, Tensor residual, Tensor y) {
  if (residual) std::memcpy(y.raw(), residual.raw(), residual.bytes());
  bf16_product(bf16_products_, forward_product(d, bool(residual), bool(b)), x.data<bf16>(), Rounded(w), b.data<float>(),
               y.data<bf16>());
}

void CpuBackend::linear_bf16_backward(LinearDims d, const LinearBackward& args) {
  const bf16* dy = args.dy.data<bf16>();
  const Gradient &dx = args.dx, &dw = args.dw;
  if (dx) bf16_product(bf16_products_, input_product(d, adds(dx)), dy, Rounded(args.w), nullptr, dx.to.data<bf16>());
  if (dw)
    bf16_product(bf16_products_, weight_product(d, adds(dw)), dy, args.x.data<bf16>(), nullptr, dw.to.data<float>());
  if (args.db) add_column_sums(d.rows, d.out, dy, args.db);
}

void CpuBackend::linear_gelu_bf16(LinearDims d, GeluForm form, Tensor x, Tensor w, Tensor b, Tensor slope, Tensor y) {
  linear_bf16(d, x, w, b, {}, y);
  gelu_forward(form, d.rows * d.out, y.data<bf16>(), y.data<bf16>(), slope.data<bf16>());
}

void CpuBackend::linear_gelu_bf16_backward(LinearDims d, LinearBackward args) {
  const std::int64_t n = d.rows * d.out;
  const bf16 *up = args.dy.data<bf16>(), *rise = args.saved.data<bf16>();
  const Scratch<bf16> dh(n);
  each_vector<float>(
      n, [&](std::int64_t i, auto lanes) { store(dh + i, load(up + i, lanes) * load(rise + i, lanes), lanes); });
  args.dy = Tensor(dh, args.dy.shape(), DType::bf16);
  linear_bf16_backward(d, args);
}

}  // namespace normlab
