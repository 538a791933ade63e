// Multi-head attention on projected queries, keys and values ("Attention Is All You Need", section 3.2.2).
#include "autograd/ops.h"

namespace normlab {

Var attention(const Var& q, const Var& k, const Var& v, std::int64_t num_heads, Tensor keep, double rate) {
  if (q.shape().rank() != 3)
    throw InputError(concat("attention: q is ", q.shape().str(), ", expected [batch, tokens, width]"));
  require_shape("attention", "k", k.shape(), q.shape());
  require_shape("attention", "v", v.shape(), q.shape());
  const std::int64_t batch = q.shape()[0], tokens = q.shape()[1], width = q.shape()[2];
  if (num_heads < 1 || width % num_heads != 0)
    throw InputError(concat("attention: ", num_heads, " heads do not divide a width of ", width));
  if (keep) require_shape("attention", "keep", keep.shape(), {batch, num_heads, tokens, tokens});
  const AttentionDims dims{batch, tokens, num_heads, width / num_heads};
  Tape& tape = q.tape();
  Tensor y = tape.empty_like(q.value());
  // Kept: the log-sum-exp of each row of scores; the weights are made again from it.
  Tensor lse = tape.empty_acc(q.value(), {batch, num_heads, tokens});
  tape.backend().attention(dims, q.value(), k.value(), v.value(), keep, rate, y, lse);
  return tape.record("attention", {q, k, v}, y,
                     [=, q = q.value(), k = k.value(), v = v.value()](Backend& backend, const Tensor& dy, Grads& d) {
                       backend.attention_backward(dims, dy, q, k, v, keep, rate, y, lse, d[0], d[1], d[2]);
                     });
}

}  // namespace normlab
