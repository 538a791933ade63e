// Dense layers, alone and with GELU behind them.
#include "autograd/ops.h"

namespace normlab {
namespace {
LinearDims linear_dims(const char* op, const Var& x, const Var& weight, const Var& bias) {
  const LinearDims dims{x.shape().rows(), x.shape().back(), weight.shape()[0]};
  require_shape(op, "weight", weight.shape(), {dims.out, dims.in});
  if (bias) require_shape(op, "bias", bias.shape(), {dims.out});
  return dims;
}
Tensor value_of(const Var& v) { return v ? v.value() : Tensor(); }
}  // namespace

Var linear(const Var& x, const Var& weight, const Var& bias) {
  const LinearDims dims = linear_dims("linear", x, weight, bias);
  Tape& tape = x.tape();
  Tensor y = tape.empty(with_back(x.shape(), dims.out), x.value().dtype());
  tape.backend().linear(dims, x.value(), weight.value(), value_of(bias), y);
  return tape.record("linear", {x, weight, bias}, y,
                     [=, x = x.value(), w = weight.value()](Backend& backend, const Tensor& dy, Grads& d) {
                       backend.linear_backward(dims, dy, x, w, d[0], d[1], d[2]);
                     });
}

Var linear_add(const Var& x, const Var& weight, const Var& bias, const Var& residual) {
  const LinearDims dims = linear_dims("linear_add", x, weight, bias);
  require_shape("linear_add", "residual", residual.shape(), with_back(x.shape(), dims.out));
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(residual.value());
  tape.backend().linear_add(dims, x.value(), weight.value(), value_of(bias), residual.value(), y);
  return tape.record("linear_add", {x, weight, bias, residual}, y,
                     [=, x = x.value(), w = weight.value()](Backend& backend, const Tensor& dy, Grads& d) {
                       backend.linear_backward(dims, dy, x, w, d[0], d[1], d[2]);
                       if (!d.take(3)) backend.copy_gradient(dy, d[3]);
                     });
}

Var linear_gelu(const Var& x, const Var& weight, const Var& bias, GeluForm form) {
  const LinearDims dims = linear_dims("linear_gelu", x, weight, bias);
  Tape& tape = x.tape();
  const Shape shape = with_back(x.shape(), dims.out);
  // Kept: what makes the way back short; the activation is kept as the next layer's input.
  Tensor kept, y = tape.empty(shape, x.value().dtype());
  if (tape.recording()) kept = tape.empty(shape, x.value().dtype());
  tape.backend().linear_gelu(dims, form, x.value(), weight.value(), value_of(bias), kept, y);
  return tape.record("linear_gelu", {x, weight, bias}, y,
                     [=, x = x.value(), w = weight.value()](Backend& backend, const Tensor& dy, Grads& d) {
                       backend.linear_gelu_backward(dims, form, dy, x, w, kept, d[0], d[1], d[2]);
                     });
}

}  // namespace normlab
