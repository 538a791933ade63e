// Multi-head attention on projected queries, keys and values ("Attention Is All You Need", section 3.2.2).
// Kept by both: the log-sum-exp of each row of scores; the weights are made again from it.
#include "autograd/ops/qkv.h"

namespace normlab {

Var attention(const Var& q, const Var& k, const Var& v, std::int64_t num_heads, Tensor keep, double rate) {
  if (q.shape().rank() != 3)
    throw InputError(concat("attention: q is ", q.shape().str(), ", expected [batch, tokens, width]"));
  require_shape("attention", "k", k.shape(), q.shape());
  require_shape("attention", "v", v.shape(), q.shape());
  const AttentionDims dims = attention_dims("attention", q.shape(), num_heads, q.shape()[2], keep);
  Tape& tape = q.tape();
  Tensor y = tape.empty_like(q.value()), lse = tape.empty_acc(q.value(), {dims.batch, num_heads, dims.tokens});
  tape.backend().attention(dims, q.value(), k.value(), v.value(), keep, rate, y, lse);
  return tape.record("attention", {q, k, v}, y,
                     [=, q = q.value(), k = k.value(), v = v.value()](Backend& backend, const Tensor& dy, Grads& d) {
                       backend.attention_backward(dims, dy, q, k, v, keep, rate, y, lse, d[0], d[1], d[2]);
                     });
}

Var attention(const Var& qkv, std::int64_t num_heads, Tensor keep, double rate) {
  const Shape& s = qkv.shape();
  if (s.rank() != 3 || s[2] % 3 != 0)
    throw InputError(concat("attention: qkv is ", s.str(), ", expected [batch, tokens, 3 width]"));
  const Shape shape{s[0], s[1], s[2] / 3};
  const AttentionDims dims = attention_dims("attention", shape, num_heads, s[2], keep);
  Tape& tape = qkv.tape();
  Tensor y = tape.empty(shape, qkv.value().dtype());
  Tensor lse = tape.empty_acc(qkv.value(), {dims.batch, num_heads, dims.tokens});
  const Tensor q = qkv_third(qkv.value(), 0), k = qkv_third(qkv.value(), 1), v = qkv_third(qkv.value(), 2);
  tape.backend().attention(dims, q, k, v, keep, rate, y, lse);
  return tape.record("attention", {qkv}, y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    const Gradient g = d[0];
    backend.attention_backward(dims, dy, q, k, v, keep, rate, y, lse, {qkv_third(g.to, 0), g.write},
                               {qkv_third(g.to, 1), g.write}, {qkv_third(g.to, 2), g.write});
  });
}

}  // namespace normlab
