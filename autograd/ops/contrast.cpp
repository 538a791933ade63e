#include "autograd/contrast.h"

#include <cstring>

#include "core/backend.h"

namespace normlab {
namespace {

/// Joins the rows of all shards in `all`, which is only read in the first shard here; gives every shard that tensor.
Tensor gather(Collective& shards, const Tensor& mine, Tensor all) {
  if (shards.size() == 1) return mine;
  const Collective::Bytes bytes(static_cast<const std::byte*>(mine.raw()), mine.bytes());
  shards.meet(bytes, &all, [](std::span<const Collective::Bytes> parts, std::span<void* const> here) {
    const Tensor to = *static_cast<Tensor*>(here[0]);
    std::size_t at = 0;
    for (const Collective::Bytes& part : parts) {
      std::memcpy(static_cast<std::byte*>(to.raw()) + at, part.data(), part.size());
      at += part.size();
    }
    for (void* shard : here) *static_cast<Tensor*>(shard) = to;
  });
  return all;
}

}  // namespace

Var embed(const Var& table, Tensor ids, DType dtype) {
  if (table.shape().rank() != 2 || ids.dtype() != DType::i32)
    throw InputError(concat("embed: the table is ", table.shape().str(), " and the numbers are ",
                            to_string(ids.dtype()), ", expected [words, width] and i32"));
  Tape& tape = table.tape();
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  for (int i = 0; i < ids.shape().rank(); ++i) dims[std::size_t(i)] = ids.shape()[i];
  dims[std::size_t(ids.shape().rank())] = table.shape().back();
  Tensor y = tape.empty(Shape(dims.begin(), dims.begin() + ids.shape().rank() + 1), dtype);
  tape.backend().embed(ids, table.value(), y);
  return tape.record("embed", {table}, y,
                     [=](Backend& backend, const Tensor& dy, Grads& d) { backend.embed_backward(dy, ids, d[0]); });
}

Var unit_rows(const Var& x) {
  Tape& tape = x.tape();
  Tensor y = tape.empty_acc(x.value(), x.shape());
  tape.backend().unit_rows(x.value(), y);
  return tape.record("unit_rows", {x}, y, [x = x.value()](Backend& backend, const Tensor& dy, Grads& d) {
    backend.unit_rows_backward(dy, x, d[0]);
  });
}

Var contrastive_loss(const Var& image, const Var& text, const Var& t, const Var& b, ContrastKind kind,
                     const BatchSlice& slice) {
  constexpr const char* kOp = "contrastive_loss";
  const std::int64_t n = slice.images, width = image.shape().back();
  require_shape(kOp, "image", image.shape(), {n, width});
  require_shape(kOp, "text", text.shape(), {n, width});
  require_shape(kOp, "t", t.shape(), {1});
  require_shape(kOp, "b", b.shape(), {1});
  if (slice.batch < 2)
    throw InputError(concat(kOp, ": a batch of one pair has nothing to contrast; use a larger batch"));
  const ContrastDims dims{n, slice.batch, slice.first_image, kind == ContrastKind::sigmoid};
  Tape& tape = image.tape();
  Collective* const shards = slice.shards;
  const auto acc = [&](const Shape& shape) { return tape.empty_acc(image.value(), shape); };
  // The first shard here has room for what all of them contribute.
  const bool joins = shards->size() > 1 && shards->place() == 0;
  const auto room = [&](std::int64_t values) { return joins ? acc({slice.batch, values}) : Tensor(); };
  const Tensor images = gather(*shards, image.value(), room(width)), texts = gather(*shards, text.value(), room(width));
  Contrast logits{acc({n, slice.batch}), acc({n, slice.batch}), t.value(), b.value()};
  const LinearDims products{n, width, slice.batch};
  tape.backend().linear(products, image.value(), texts, {}, {}, logits.rows);
  tape.backend().linear(products, text.value(), images, {}, {}, logits.cols);
  const Tensor statistics = acc({n, 4}), losses = acc({n});
  tape.backend().contrast(dims, logits, statistics, losses);
  const Tensor all_statistics = room(4), all_dlosses = room(1), partial = acc({n, 2});
  return tape.record(
      kOp, {image, text, t, b}, losses,
      [=, of_image = image.value(), of_text = text.value()](Backend& backend, const Tensor& dy, Grads& d) {
        const Tensor of_all = gather(*shards, statistics, all_statistics), up = gather(*shards, dy, all_dlosses);
        backend.contrast_backward(dims, logits, of_all, up, partial, d[2], d[3]);
        backend.linear_backward(products, {.dy = logits.rows, .x = of_image, .w = texts, .dx = d[0]});
        backend.linear_backward(products, {.dy = logits.cols, .x = of_text, .w = images, .dx = d[1]});
      });
}

}  // namespace normlab
