// A residual sum and the norm after it. They are two nodes of the tape, since the sum goes on to the next residual. In
// the backward pass the norm's node comes first. All other uses of the sum have given their gradients by then, so the
// norm's makes the gradient of the sum final.
#include "autograd/ops.h"

namespace normlab {
namespace {

/// Without a mean: RMSNorm.
NormOfSum norm_of_sum(const char* op, const ResidualSum& s, const Var& gamma, const Var& beta, double eps,
                      bool has_mean) {
  const Tensor x = s.branch.value(), residual = s.residual.value();
  const Shape& shape = x.shape();
  const NormDims dims{shape.rows(), shape.back(), eps};
  require_shape(op, "residual", residual.shape(), shape);
  if (s.keep) require_shape(op, "keep", s.keep.shape(), {shape[0]});
  if (gamma) require_shape(op, "gamma", gamma.shape(), {dims.cols});
  if (beta) require_shape(op, "beta", beta.shape(), {dims.cols});
  const RowMask mask{s.keep, s.keep ? dims.rows / shape[0] : 1, s.rate};
  Tape& tape = s.branch.tape();
  const Tensor g = gamma ? gamma.value() : Tensor(), b = beta ? beta.value() : Tensor();
  const Tensor sum = tape.empty_like(x), y = tape.empty_like(x);
  const Tensor mean = has_mean ? tape.empty_acc(x, {dims.rows}) : Tensor(), rstd = tape.empty_acc(x, {dims.rows});
  tape.backend().norm_of_sum(dims, mask, x, residual, {sum, g, b, y, mean, rstd});

  bool* branch_done = tape.share(false);  // by the norm, unless nothing has used what it gave
  const char* site = tape.site();
  tape.at(s.site);
  const Var of_sum = tape.record(op, {s.branch, s.residual}, sum, [=](Backend& backend, const Tensor& dsum, Grads& d) {
    if (!*branch_done) {
      if (mask.keep)
        backend.dropout_backward(mask.rows * dims.cols, mask.rate, dsum, mask.keep, d[0]);
      else
        backend.copy_gradient(dsum, d[0]);
    }
    *branch_done = false;
    if (!d.take(1)) backend.copy_gradient(dsum, d[1]);
  });
  tape.at(site);
  const Var of_norm =
      tape.record(op, {of_sum, gamma, beta, s.branch}, y, [=](Backend& backend, const Tensor& dy, Grads& d) {
        const NormBackward n{dy, sum, g, mean, rstd, d[0], d[1], d[2]};
        backend.norm_of_sum_backward(dims, mask, n, d[3]);
        *branch_done = true;
      });
  return {of_sum, of_norm};
}

}  // namespace

Var add(const ResidualSum& s) {
  Tape& tape = s.residual.tape();
  const char* site = tape.site();
  tape.at(s.site);
  const Var sum = s.keep ? dropout_add(s.branch, s.keep, s.rate, s.residual) : add(s.residual, s.branch);
  tape.at(site);
  return sum;
}

NormOfSum layer_norm(const ResidualSum& s, const Var& gamma, const Var& beta, double eps) {
  if (bool(gamma) != bool(beta)) throw InputError("layer_norm: gamma and beta come together or not at all");
  return norm_of_sum("add_layer_norm", s, gamma, beta, eps, true);
}

NormOfSum rms_norm(const ResidualSum& s, const Var& gamma, double eps) {
  return norm_of_sum("add_rms_norm", s, gamma, Var(), eps, false);
}

}  // namespace normlab
