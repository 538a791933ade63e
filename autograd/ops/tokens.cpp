// Positions, class token, pooling: operations on whole tokens.
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

Var concat_token(const Var& token, const Var& x) {
  const TokenDims dims = token_dims("concat_token", x);
  require_shape("concat_token", "token", token.shape(), {1, 1, dims.cols});
  Tape& tape = x.tape();
  Tensor y = tape.empty({dims.batch, dims.tokens + 1, dims.cols}, x.value().dtype());
  const TokenDims all{dims.batch, dims.tokens + 1, dims.cols};
  const PartDims rest{all.tokens * all.cols, all.cols, dims.tokens * all.cols};
  tape.backend().put_token(all, token.value(), y);
  tape.backend().scatter(rest, x.value(), {y});
  return tape.record("concat_token", {token, x}, y, [=](Backend& backend, const Tensor& dy, Grads& d) {
    backend.put_token_backward(all, dy, d[0]);
    backend.gather(rest, dy, d[1]);
  });
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
