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

/// q is the shape of each of q, k and v, `stride` as in AttentionDims. Checks the arguments and stores them in `input`.
AttentionDims dims_of(const Options& args, const Shape& q, std::int64_t stride, AttentionInput& input) {
  const std::int64_t batch = q[0], tokens = q[1], width = q[2];
  if (args.windows) {
    const WindowDims grid = args.windows->dims(1, width);
    if (tokens != grid.tokens() || batch % grid.windows() != 0)
      throw InputError(concat(args.op, ": q is ", q.str(), ", expected [images * ", grid.windows(), ", ", grid.tokens(),
                              ", width]"));
    input.windows = args.windows->dims(batch / grid.windows(), width);
  }
  if (args.num_heads < 1 || width % args.num_heads != 0)
    throw InputError(concat(args.op, ": ", args.num_heads, " heads do not divide a width of ", width));
  if (args.keep) require_shape(args.op, "keep", args.keep.shape(), {batch, args.num_heads, tokens, tokens});
  if (args.windows) {
    require_shape(args.op, "table", args.table.shape(), {input.windows->offsets(), args.num_heads});
    input.table = args.table.value();
  }
  input.keep = args.keep;
  input.rate = args.rate;
  return {
      .batch = batch, .tokens = tokens, .heads = args.num_heads, .head_dim = width / args.num_heads, .stride = stride};
}

/// One of `count` tensors that are concatenated in [B, N, count D], such as q, k and v or their gradients. The result
/// starts at its first value.
Tensor side_by_side(const Tensor& t, int which, int count) {
  if (!t) return t;
  const std::int64_t width = t.shape().back() / count;
  return Tensor(static_cast<char*>(t.raw()) + static_cast<std::size_t>(which * width) * size_of(t.dtype()),
                {t.shape()[0], t.shape()[1], width}, t.dtype());
}
Gradient side_by_side(const Gradient& g, int which, int count) { return {side_by_side(g.to, which, count), g.write}; }

/// Without k and v, `q` holds all three side by side.
Var attention(const Options& args, const Var& q, const Var& k, const Var& v) {
  const bool joined = !k;
  const Shape& s = q.shape();
  if (s.rank() != 3 || (joined && s[2] % 3 != 0))
    throw InputError(concat(args.op, ": ", joined ? "qkv" : "q", " is ", s.str(), ", expected [",
                            args.windows ? "windows" : "batch", ", tokens, ", joined ? "3 width]" : "width]"));
  if (!joined) require_shape(args.op, "k", k.shape(), s);
  if (!joined) require_shape(args.op, "v", v.shape(), s);
  const auto third = [&](int which) { return side_by_side(q.value(), which, 3); };
  AttentionInput input;
  input.q = joined ? third(0) : q.value();
  input.k = joined ? third(1) : k.value();
  input.v = joined ? third(2) : v.value();
  const AttentionDims dims = dims_of(args, input.q.shape(), s[2], input);
  Tape& tape = q.tape();
  const AttentionOutput output{.y = tape.empty(input.q.shape(), input.q.dtype()),
                               .lse = tape.empty_acc(input.q, {dims.batch, dims.heads, dims.tokens})};
  tape.backend().attention(dims, input, output);
  return tape.record(args.op, {q, k, v, args.table}, output.y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    AttentionGradients to{.dq = d[0], .dk = d[1], .dv = d[2], .dtable = d[3]};
    if (const Gradient all = to.dq; joined) {
      to.dq = side_by_side(all, 0, 3);
      to.dk = side_by_side(all, 1, 3);
      to.dv = side_by_side(all, 2, 3);
      to.dsum = d.sums(0);
    }
    backend.attention_backward(dims, input, output, dy, to);
  });
}

}  // namespace

Var attention(const Var& q, const Var& k, const Var& v, std::int64_t num_heads, Tensor keep, double rate) {
  return attention({"attention", num_heads, keep, rate}, q, k, v);
}
Var attention(const Var& qkv, std::int64_t num_heads, Tensor keep, double rate) {
  return attention({"attention", num_heads, keep, rate}, qkv, Var(), Var());
}
Var window_attention(const Var& q, const Var& k, const Var& v, const Var& table, std::int64_t num_heads,
                     const Windows& windows, Tensor keep, double rate) {
  return attention({"window_attention", num_heads, keep, rate, &windows, table}, q, k, v);
}
Var window_attention(const Var& qkv, const Var& table, std::int64_t num_heads, const Windows& windows, Tensor keep,
                     double rate) {
  return attention({"window_attention", num_heads, keep, rate, &windows, table}, qkv, Var(), Var());
}

Var token_attention(const Var& q, const Var& kv, std::int64_t num_heads) {
  return token_attention(q, kv, Var(), num_heads);
}
Var token_attention(const Var& q, const Var& k, const Var& v, std::int64_t num_heads) {
  constexpr const char* kOp = "token_attention";
  const bool joined = !v;
  const Shape& all = k.shape();
  const std::int64_t width = joined ? all.back() / 2 : all.back();
  require_shape(kOp, "q", q.shape(), {all[0], 1, width});
  if (!joined) require_shape(kOp, "v", v.shape(), all);
  if (num_heads < 1 || width % num_heads != 0)
    throw InputError(concat(kOp, ": ", num_heads, " heads do not divide a width of ", width));
  const AttentionDims dims{
      .batch = all[0], .tokens = all[1], .heads = num_heads, .head_dim = width / num_heads, .stride = all.back()};
  const auto half = [&](int which) { return side_by_side(k.value(), which, 2); };
  Tape& tape = q.tape();
  const TokenAttention args{.q = q.value(),
                            .k = joined ? half(0) : k.value(),
                            .v = joined ? half(1) : v.value(),
                            .y = tape.empty_like(q.value()),
                            .weights = tape.empty_acc(q.value(), {dims.batch, dims.heads, dims.tokens})};
  tape.backend().token_attention(dims, args);
  return tape.record(kOp, {q, k, v}, args.y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    TokenAttentionBackward back{
        .dy = dy, .q = args.q, .k = args.k, .v = args.v, .weights = args.weights, .dq = d[0], .dk = d[1], .dv = d[2]};
    if (const Gradient both = back.dk; joined) {
      back.dk = side_by_side(both, 0, 2);
      back.dv = side_by_side(both, 1, 2);
    }
    backend.token_attention_backward(dims, back);
  });
}

}  // namespace normlab
