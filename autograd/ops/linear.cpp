// Dense layers, alone and followed by GELU.
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {
namespace {

LinearDims linear_dims(const char* op, const Var& x, const Var& weight, const Var& bias) {
  const LinearDims dims{x.shape().rows(), x.shape().back(), weight.shape()[0]};
  require_shape(op, "weight", weight.shape(), {dims.out, dims.in});
  if (bias) require_shape(op, "bias", bias.shape(), {dims.out});
  return dims;
}
Tensor value_of(const Var& v) { return v ? v.value() : Tensor(); }

/// `open`: the incoming gradient is already that of the product.
Var product_gelu(const Var& x, const Var& weight, const Var& bias, GeluForm form, bool open, Tensor& slope) {
  const LinearDims dims = linear_dims("linear_gelu", x, weight, bias);
  Tape& tape = x.tape();
  const Shape shape = with_back(x.shape(), dims.out);
  Tensor y = tape.empty(shape, x.value().dtype());
  // What shortens the backward pass; the activation itself is kept as the next layer's input.
  if (tape.recording()) slope = tape.empty(shape, x.value().dtype());
  tape.backend().linear_gelu(dims, form, x.value(), weight.value(), value_of(bias), slope, y);
  return tape.record(
      "linear_gelu", {x, weight, bias}, y,
      [=, x = tape.save(x), w = weight.value(), slope = slope](Backend& backend, const Tensor& dy, Grads& d) {
        const LinearBackward args{.dy = dy, .x = x.value(), .w = w, .dx = d[0], .dw = d[1], .db = d[2], .saved = slope};
        if (open)
          backend.linear_backward(dims, args);
        else
          backend.linear_gelu_backward(dims, form, args);
      });
}

}  // namespace

/// residual + x weight^T + bias; without a residual, the product and its bias.
Var product(const Activation& input, const Var& weight, const Var& bias, const Var& residual) {
  const char* op = residual ? "linear_add" : "linear";
  const Var& x = input.value_;
  const LinearDims dims = linear_dims(op, x, weight, bias);
  const Shape shape = with_back(x.shape(), dims.out);
  if (residual) require_shape(op, "residual", residual.shape(), shape);
  Tape& tape = x.tape();
  Tensor y = tape.empty(shape, x.value().dtype());
  tape.backend().linear(dims, x.value(), weight.value(), value_of(bias), value_of(residual), y);
  const Var out = tape.record(op, {x, weight, bias, residual}, y,
                              [=, x = tape.save(x), w = weight.value(), form = input.form_, slope = input.slope_](
                                  Backend& backend, const Tensor& dy, Grads& d) {
                                const LinearBackward args{.dy = dy,
                                                          .x = x.value(),
                                                          .w = w,
                                                          .dx = d[0],
                                                          .dw = d[1],
                                                          .db = d.summed() ? Gradient() : d[2],
                                                          .saved = slope};
                                if (slope)
                                  backend.linear_backward_through_gelu(dims, form, args);
                                else
                                  backend.linear_backward(dims, args);
                                if (!d.take(3)) backend.copy_gradient(dy, d[3]);
                              });
  tape.row_sums(out, bias);
  return out;
}

Var linear(const Activation& x, const Var& weight, const Var& bias) { return product(x, weight, bias, Var()); }
Var linear_add(const Activation& x, const Var& weight, const Var& bias, const Var& residual) {
  return product(x, weight, bias, residual);
}
Var linear_gelu(const Var& x, const Var& weight, const Var& bias, GeluForm form) {
  Tensor slope;
  return product_gelu(x, weight, bias, form, false, slope);
}
Activation::Activation(const Var& x, const Var& weight, const Var& bias, GeluForm form)
    : form_(form), value_(product_gelu(x, weight, bias, form, true, slope_)) {}

}  // namespace normlab
