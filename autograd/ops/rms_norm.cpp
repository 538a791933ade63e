// RMSNorm (Zhang and Sennrich 2019) and its relatives; the epsilon is inside the root.
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {
namespace {

Var rms_norm_of(const char* op, const NormDims& dims, const Var& x, const Var& gamma) {
  require_shape(op, "gamma", gamma.shape(), {dims.cols});
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  Tensor rstd = tape.empty_acc(x.value(), {dims.rows});
  tape.backend().layer_norm(dims, {.x = x.value(), .gamma = gamma.value(), .y = y, .rstd = rstd});
  return tape.record(op, {x, gamma}, y, [=, x = x.value(), g = gamma.value()](Backend& b, const Tensor& dy, Grads& d) {
    b.layer_norm_backward(dims,
                          {.dy = dy, .x = x, .gamma = g, .rstd = rstd, .dx = d[0], .dgamma = d[1], .dsum = d.sums(0)});
  });
}

NormDims dims_of(const Var& x, double eps) { return {x.shape().rows(), x.shape().back(), eps}; }

}  // namespace

Var rms_norm(const Var& x, const Var& gamma, double eps) { return rms_norm_of("rms_norm", dims_of(x, eps), x, gamma); }

Var l2_norm(const Var& x, const Var& gamma, double eps) {
  NormDims dims = dims_of(x, eps);
  dims.sum = true;
  return rms_norm_of("l2_norm", dims, x, gamma);
}

Var seednorm(const Var& x, const Var& alpha, const Var& beta, const Var& gamma, double eps) {
  const NormDims dims = dims_of(x, eps);
  for (const auto& [name, parameter] : {std::pair{"alpha", alpha}, {"beta", beta}, {"gamma", gamma}})
    require_shape("seednorm", name, parameter.shape(), {dims.cols});
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  Tensor rstd = tape.empty_acc(x.value(), {dims.rows}), gates = tape.empty_acc(x.value(), {dims.rows});
  tape.backend().seednorm(dims, {.x = x.value(), .gamma = gamma.value(), .beta = beta.value(), .y = y, .rstd = rstd},
                          alpha.value(), gates);
  return tape.record("seednorm", {x, alpha, beta, gamma}, y,
                     [=, x = x.value(), a = alpha.value(), b = beta.value(), g = gamma.value()](
                         Backend& backend, const Tensor& dy, Grads& d) {
                       backend.seednorm_backward(
                           dims,
                           {.dy = dy, .x = x, .gamma = g, .rstd = rstd, .dx = d[0], .dgamma = d[3], .dbeta = d[2]}, a,
                           b, gates, d[1]);
                     });
}

Var bhyt(const Var& x, const Var& alpha, const Var& gamma, double kappa, double eps) {
  const NormDims dims = dims_of(x, eps);
  require_shape("bhyt", "alpha", alpha.shape(), {1});
  require_shape("bhyt", "gamma", gamma.shape(), {dims.cols});
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  Tensor rstd = tape.empty_acc(x.value(), {tape.backend().kept_by_bhyt(dims, kappa)});
  tape.backend().bhyt(dims, kappa, {.x = x.value(), .gamma = gamma.value(), .y = y, .rstd = rstd}, alpha.value());
  return tape.record(
      "bhyt", {x, alpha, gamma}, y,
      [=, x = x.value(), a = alpha.value(), g = gamma.value()](Backend& backend, const Tensor& dy, Grads& d) {
        backend.bhyt_backward(dims, kappa, {.dy = dy, .x = x, .gamma = g, .rstd = rstd, .dx = d[0], .dgamma = d[2]}, a,
                              d[1]);
      });
}

}  // namespace normlab
