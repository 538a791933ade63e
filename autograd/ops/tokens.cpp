// Positions, tokens without a patch, pooling: operations on whole tokens.
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {
namespace {
TokenDims token_dims(const char* op, const Var& x) {
  if (x.shape().rank() != 3)
    throw InputError(concat(op, ": x is ", x.shape().str(), ", expected [batch, tokens, width]"));
  return {x.shape()[0], x.shape()[1], x.shape()[2]};
}
}  // namespace

Var add_positions(const Var& x, const Var& position) {
  const TokenDims dims = token_dims("add_positions", x);
  require_shape("add_positions", "position", position.shape(), {1, dims.tokens, dims.cols});
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  tape.backend().add_positions(dims, x.value(), position.value(), y);
  return tape.record("add_positions", {x, position}, y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    backend.add_positions_backward(dims, dy, d[0], d[1]);
  });
}

Var mean_tokens(const Var& x) {
  const TokenDims dims = token_dims("mean_tokens", x);
  Tape& tape = x.tape();
  Tensor y = tape.empty({dims.batch, dims.cols}, x.value().dtype());
  tape.backend().mean_tokens(dims, x.value(), y);
  return tape.record("mean_tokens", {x}, y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    backend.mean_tokens_backward(dims, dy, d[0]);
  });
}

Var prepend_tokens(const Var& tokens, const Var& x) {
  const TokenDims dims = token_dims("prepend_tokens", x), own = token_dims("prepend_tokens", tokens);
  require_shape("prepend_tokens", "tokens", tokens.shape(), {1, own.tokens, dims.cols});
  Tape& tape = x.tape();
  const TokenDims all{dims.batch, own.tokens + dims.tokens, dims.cols};
  Tensor y = tape.empty({all.batch, all.tokens, all.cols}, x.value().dtype());
  const PartDims rest{all.tokens * all.cols, own.tokens * all.cols, dims.tokens * all.cols};
  tape.backend().put_token(all, tokens.value(), y);
  tape.backend().scatter(rest, x.value(), {y});
  return tape.record("prepend_tokens", {tokens, x}, y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    backend.put_token_backward(all, dy, d[0]);
    backend.gather(rest, dy, d[1]);
  });
}

Var rotate(const Var& x, Tensor table, const Rotation& r) {
  const TokenDims dims = token_dims("rotate", x);
  if (r.head_dim < 2 || r.head_dim % 2 != 0 || r.turned < 0 || r.turned > dims.cols || dims.cols % r.head_dim != 0 ||
      r.turned % r.head_dim != 0 || r.first < 0 || r.first > dims.tokens)
    throw InputError(concat("rotate: heads of ", r.head_dim, " channels, the first ", r.turned, " from token ", r.first,
                            " on, of ", x.shape().str()));
  require_shape("rotate", "table", table.shape(), {dims.tokens - r.first, r.head_dim});
  RotaryDims rotary{.batch = dims.batch,
                    .tokens = dims.tokens,
                    .cols = dims.cols,
                    .turned = r.turned,
                    .head_dim = r.head_dim,
                    .first = r.first,
                    .pairs = r.pairs};
  Tape& tape = x.tape();
  Tensor y = tape.empty_like(x.value());
  tape.backend().rotate(rotary, x.value(), table, {y});
  rotary.back = true;
  return tape.record("rotate", {x}, y,
                     [=](Backend& backend, const Tensor& dy, Grads& d) { backend.rotate(rotary, dy, table, d[0]); });
}

Var select_tokens(const Var& x, std::int64_t first, std::int64_t count) {
  const TokenDims dims = token_dims("select_tokens", x);
  if (first < 0 || count < 1 || first + count > dims.tokens)
    throw InputError(concat("select_tokens: ", first, " + ", count, " of ", x.shape().str()));
  Tape& tape = x.tape();
  const Shape shape = count == 1 ? Shape{dims.batch, dims.cols} : Shape{dims.batch, count, dims.cols};
  Tensor y = tape.empty(shape, x.value().dtype());
  const PartDims part{dims.tokens * dims.cols, first * dims.cols, count * dims.cols};
  tape.backend().gather(part, x.value(), {y});
  return tape.record("select_tokens", {x}, y,
                     [=](Backend& backend, const Tensor& dy, Grads& d) { backend.gather(InPart{part}, dy, d[0]); });
}

Var concat_tokens(const Var& first, const Var& rest) {
  const TokenDims a = token_dims("concat_tokens", first), b = token_dims("concat_tokens", rest);
  require_shape("concat_tokens", "rest", rest.shape(), {a.batch, b.tokens, a.cols});
  const std::int64_t head = a.tokens * a.cols, tail = b.tokens * b.cols;
  const PartDims of_first{head + tail, 0, head}, of_rest{head + tail, head, tail};
  Tape& tape = first.tape();
  Tensor y = tape.empty({a.batch, a.tokens + b.tokens, a.cols}, first.value().dtype());
  tape.backend().scatter(of_first, first.value(), {y});
  tape.backend().scatter(of_rest, rest.value(), {y});
  return tape.record("concat_tokens", {first, rest}, y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    backend.gather(of_first, dy, d[0]);
    backend.gather(of_rest, dy, d[1]);
  });
}

}  // namespace normlab
