// Multi-head attention on projected queries, keys and values ("Attention Is All You Need", section 3.2.2), over whole
// images or inside (shifted) windows with a learned bias by relative position ("Swin Transformer", section 3.2). Keeps
// the log-sum-exp of each row of scores; the weights are recomputed from it.
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {
namespace {

/// Arguments besides q, k and v. `windows` and `table`: of window_attention.
struct Options {
  const char* op;
  std::int64_t num_heads;
  Tensor keep;
  double rate;
  const Windows* windows = nullptr;
  Var table{};
};

/// q is the shape of each of q, k and v, `stride` as in AttentionDims. Checks the arguments in `of` and stores them
/// in `input`.
AttentionDims dims_of(const Options& of, const Shape& q, std::int64_t stride, AttentionInput& input) {
  const std::int64_t batch = q[0], tokens = q[1], width = q[2];
  if (of.windows) {
    const WindowDims grid = of.windows->dims(1, width);
    if (tokens != grid.tokens() || batch % grid.windows() != 0)
      throw InputError(
          concat(of.op, ": q is ", q.str(), ", expected [images * ", grid.windows(), ", ", grid.tokens(), ", width]"));
    input.windows = of.windows->dims(batch / grid.windows(), width);
  }
  if (of.num_heads < 1 || width % of.num_heads != 0)
    throw InputError(concat(of.op, ": ", of.num_heads, " heads do not divide a width of ", width));
  if (of.keep) require_shape(of.op, "keep", of.keep.shape(), {batch, of.num_heads, tokens, tokens});
  if (of.windows) {
    require_shape(of.op, "table", of.table.shape(), {input.windows->offsets(), of.num_heads});
    input.table = of.table.value();
  }
  input.keep = of.keep;
  input.rate = of.rate;
  return {batch, tokens, of.num_heads, width / of.num_heads, stride};
}

AttentionOutput attend(Tape& tape, const AttentionDims& dims, const AttentionInput& input) {
  const AttentionOutput output{tape.empty({dims.batch, dims.tokens, dims.width()}, input.q.dtype()),
                               tape.empty_acc(input.q, {dims.batch, dims.heads, dims.tokens})};
  tape.backend().attention(dims, input, output);
  return output;
}

Var attention(const Options& of, const Var& q, const Var& k, const Var& v) {
  if (q.shape().rank() != 3)
    throw InputError(concat(of.op, ": q is ", q.shape().str(), ", expected [", of.windows ? "windows" : "batch",
                            ", tokens, width]"));
  require_shape(of.op, "k", k.shape(), q.shape());
  require_shape(of.op, "v", v.shape(), q.shape());
  AttentionInput input{q.value(), k.value(), v.value()};
  const AttentionDims dims = dims_of(of, q.shape(), q.shape()[2], input);
  const AttentionOutput output = attend(q.tape(), dims, input);
  return q.tape().record(of.op, {q, k, v, of.table}, output.y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    backend.attention_backward(dims, input, output, dy, {d[0], d[1], d[2], d[3]});
  });
}

/// One of `count` tensors that are concatenated in [B, N, count D], such as q, k and v or their gradients. The result
/// starts at its first value.
Tensor side_by_side(const Tensor& t, int which, int count) {
  if (!t) return t;
  const std::int64_t width = t.shape().back() / count;
  return Tensor(static_cast<char*>(t.raw()) + static_cast<std::size_t>(which * width) * size_of(t.dtype()),
                {t.shape()[0], t.shape()[1], width}, t.dtype());
}

Var attention(const Options& of, const Var& qkv) {
  const Shape& s = qkv.shape();
  if (s.rank() != 3 || s[2] % 3 != 0)
    throw InputError(
        concat(of.op, ": qkv is ", s.str(), ", expected [", of.windows ? "windows" : "batch", ", tokens, 3 width]"));
  const Tensor all = qkv.value();
  AttentionInput input{side_by_side(all, 0, 3), side_by_side(all, 1, 3), side_by_side(all, 2, 3)};
  const AttentionDims dims = dims_of(of, {s[0], s[1], s[2] / 3}, s[2], input);
  const AttentionOutput output = attend(qkv.tape(), dims, input);
  return qkv.tape().record(of.op, {qkv, of.table}, output.y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    const Gradient g = d[0];
    const auto part = [&](int which) { return Gradient{side_by_side(g.to, which, 3), g.write}; };
    backend.attention_backward(dims, input, output, dy, {part(0), part(1), part(2), d[1]});
  });
}

AttentionDims token_dims(const Shape& q, std::int64_t tokens, std::int64_t num_heads, std::int64_t stride) {
  if (num_heads < 1 || q[2] % num_heads != 0)
    throw InputError(concat("token_attention: ", num_heads, " heads do not divide a width of ", q[2]));
  return {q[0], tokens, num_heads, q[2] / num_heads, stride};
}

TokenAttention attend_token(const Var& q, const AttentionDims& dims, const Tensor& k, const Tensor& v) {
  const TokenAttention of{q.value(), k, v, q.tape().empty_like(q.value()),
                          q.tape().empty_acc(q.value(), {dims.batch, dims.heads, dims.tokens})};
  q.tape().backend().token_attention(dims, of);
  return of;
}

}  // namespace

Var attention(const Var& q, const Var& k, const Var& v, std::int64_t num_heads, Tensor keep, double rate) {
  return attention({"attention", num_heads, keep, rate}, q, k, v);
}
Var attention(const Var& qkv, std::int64_t num_heads, Tensor keep, double rate) {
  return attention({"attention", num_heads, keep, rate}, qkv);
}
Var window_attention(const Var& q, const Var& k, const Var& v, const Var& table, std::int64_t num_heads,
                     const Windows& windows, Tensor keep, double rate) {
  return attention({"window_attention", num_heads, keep, rate, &windows, table}, q, k, v);
}
Var window_attention(const Var& qkv, const Var& table, std::int64_t num_heads, const Windows& windows, Tensor keep,
                     double rate) {
  return attention({"window_attention", num_heads, keep, rate, &windows, table}, qkv);
}

Var token_attention(const Var& q, const Var& k, const Var& v, std::int64_t num_heads) {
  const Shape &all = k.shape(), one{all[0], 1, all.back()};
  require_shape("token_attention", "q", q.shape(), one);
  require_shape("token_attention", "v", v.shape(), all);
  const AttentionDims dims = token_dims(one, all[1], num_heads, all.back());
  const TokenAttention of = attend_token(q, dims, k.value(), v.value());
  return q.tape().record("token_attention", {q, k, v}, of.y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    backend.token_attention_backward(dims, {dy, of.q, of.k, of.v, of.weights, d[0], d[1], d[2]});
  });
}
Var token_attention(const Var& q, const Var& kv, std::int64_t num_heads) {
  const Shape &all = kv.shape(), one{all[0], 1, all.back() / 2};
  require_shape("token_attention", "q", q.shape(), one);
  const AttentionDims dims = token_dims(one, all[1], num_heads, all.back());
  const TokenAttention of = attend_token(q, dims, side_by_side(kv.value(), 0, 2), side_by_side(kv.value(), 1, 2));
  return q.tape().record("token_attention", {q, kv}, of.y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    const auto part = [g = d[1]](int which) { return Gradient{side_by_side(g.to, which, 2), g.write}; };
    backend.token_attention_backward(dims, {dy, of.q, of.k, of.v, of.weights, d[0], part(0), part(1)});
  });
}

}  // namespace normlab
