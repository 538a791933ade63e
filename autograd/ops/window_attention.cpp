// Attention inside (shifted) windows with a learned bias by relative position ("Swin Transformer", section 3.2). Kept:
// the log-sum-exp of each row of scores.
#include "autograd/ops/qkv.h"

namespace normlab {
namespace {

struct Sizes {
  AttentionDims attention;
  WindowDims windows;
};

/// q is the shape of each of q, k and v.
Sizes sizes_of(const Shape& q, const Var& table, std::int64_t num_heads, std::int64_t stride, const Windows& windows,
               const Tensor& keep) {
  const WindowDims grid = windows.dims(1, q[2]);
  if (q[1] != grid.tokens() || q[0] % grid.windows() != 0)
    throw InputError(concat("window_attention: q is ", q.str(), ", expected [images * ", grid.windows(), ", ",
                            grid.tokens(), ", width]"));
  const AttentionDims dims = attention_dims("window_attention", q, num_heads, stride, keep);
  require_shape("window_attention", "table", table.shape(), {grid.offsets(), num_heads});
  return {dims, windows.dims(q[0] / grid.windows(), q[2])};
}

}  // namespace

Var window_attention(const Var& q, const Var& k, const Var& v, const Var& table, std::int64_t num_heads,
                     const Windows& windows, Tensor keep, double rate) {
  if (q.shape().rank() != 3)
    throw InputError(concat("window_attention: q is ", q.shape().str(), ", expected [windows, tokens, width]"));
  require_shape("window_attention", "k", k.shape(), q.shape());
  require_shape("window_attention", "v", v.shape(), q.shape());
  const Sizes d = sizes_of(q.shape(), table, num_heads, q.shape()[2], windows, keep);
  Tape& tape = q.tape();
  Tensor y = tape.empty_like(q.value());
  Tensor lse = tape.empty_acc(q.value(), {d.attention.batch, num_heads, d.attention.tokens});
  tape.backend().window_attention(d.attention, d.windows, q.value(), k.value(), v.value(), table.value(), keep, rate, y,
                                  lse);
  return tape.record("window_attention", {q, k, v, table}, y,
                     [=, q = q.value(), k = k.value(), v = v.value(), table = table.value()](
                         Backend& backend, const Tensor& dy, Grads& g) {
                       backend.window_attention_backward(d.attention, d.windows, dy, q, k, v, table, keep, rate, y, lse,
                                                         g[0], g[1], g[2], g[3]);
                     });
}

Var window_attention(const Var& qkv, const Var& table, std::int64_t num_heads, const Windows& windows, Tensor keep,
                     double rate) {
  const Shape& s = qkv.shape();
  if (s.rank() != 3 || s[2] % 3 != 0)
    throw InputError(concat("window_attention: qkv is ", s.str(), ", expected [windows, tokens, 3 width]"));
  const Shape shape{s[0], s[1], s[2] / 3};
  const Sizes d = sizes_of(shape, table, num_heads, s[2], windows, keep);
  Tape& tape = qkv.tape();
  Tensor y = tape.empty(shape, qkv.value().dtype());
  Tensor lse = tape.empty_acc(qkv.value(), {d.attention.batch, num_heads, d.attention.tokens});
  const Tensor q = qkv_third(qkv.value(), 0), k = qkv_third(qkv.value(), 1), v = qkv_third(qkv.value(), 2);
  tape.backend().window_attention(d.attention, d.windows, q, k, v, table.value(), keep, rate, y, lse);
  return tape.record(
      "window_attention", {qkv, table}, y, [=, table = table.value()](Backend& backend, const Tensor& dy, Grads& g) {
        const Gradient to = g[0];
        backend.window_attention_backward(d.attention, d.windows, dy, q, k, v, table, keep, rate, y, lse,
                                          {qkv_third(to.to, 0), to.write}, {qkv_third(to.to, 1), to.write},
                                          {qkv_third(to.to, 2), to.write}, g[1]);
      });
}

}  // namespace normlab
