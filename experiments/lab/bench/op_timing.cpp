#include "experiments/lab/bench/op_timing.h"

#include "core/backend.h"

#include <fmt/core.h>

#include <algorithm>

namespace normlab {

std::vector<LinearLayer> linear_layers(const ViTConfig& c, std::int64_t images) {
  const std::int64_t rows = images * c.tokens(), d = c.embed_dim;
  return {{"patch_embed", {images * c.patches(), c.patch_pixels(), d}, 1, false},
          {"attn.qkv", {rows, d, 3 * d}, c.depth, true},
          {"attn.proj", {rows, d, d}, c.depth, true},
          {"mlp.fc1", {rows, d, c.mlp_dim}, c.depth, true},
          {"mlp.fc2", {rows, c.mlp_dim, d}, c.depth, true},
          {"head", {images, d, c.num_classes}, 1, true}};
}

std::vector<OpTiming> time_linear(Backend& backend, ShardPool& pool, const LinearLayer& layer, DType dtype,
                                  double seconds) {
  const LinearDims d = layer.dims;
  Arena memory(backend.memory());
  const auto made = [&](const Shape& shape, DType type, std::uint32_t seed) {
    return noise(backend, memory, shape, type, 1.0f, seed);
  };
  const Tensor x = made({d.rows, d.in}, dtype, 1), w = made({d.out, d.in}, dtype, 2),
               b = made({d.out}, backend.rounds_bias() ? dtype : DType::f32, 3), dy = made({d.rows, d.out}, dtype, 4),
               y = made({d.rows, d.out}, dtype, 5), dx = made({d.rows, d.in}, dtype, 6),
               dw = made({d.out, d.in}, DType::f32, 7), db = made({d.out}, DType::f32, 8);
  backend.prepare_linear(d, dtype, true);
  const double flops = 2 * double(d.rows) * double(d.in) * double(d.out);
  const auto bytes = [](std::initializer_list<Tensor> tensors) {
    double sum = 0;
    for (const Tensor& t : tensors) sum += double(t.bytes());
    return sum;
  };
  std::vector<OpTiming> result;
  const auto add = [&](const char* part, double moved, const std::function<void(Collective&)>& body) {
    const Timed timed(backend, pool, 1, false, body);
    result.push_back({fmt::format("{} {}", layer.name, part), {flops, moved}, timed.seconds(seconds)});
  };
  add("forward", bytes({x, w, b, y}), [&](Collective&) { backend.linear(d, x, w, b, {}, y); });
  if (layer.has_dx) add("dx", bytes({dy, w, dx}), [&](Collective&) { backend.linear_backward(d, {dy, x, w, {dx}}); });
  add("dw", bytes({dy, x, dw, db}), [&](Collective&) { backend.linear_backward(d, {dy, x, w, {}, {dw}, {db}}); });
  return result;
}

std::vector<OpTiming> time_attention(Backend& backend, ShardPool& pool, AttentionDims d, DType dtype, double seconds) {
  d.stride = 3 * d.width();
  Arena memory(backend.memory());
  const Shape wide{d.batch, d.tokens, d.stride}, narrow{d.batch, d.tokens, d.width()};
  const Tensor qkv = noise(backend, memory, wide, dtype, 1.0f, 1), dy = noise(backend, memory, narrow, dtype, 1.0f, 2),
               y = noise(backend, memory, narrow, dtype, 1.0f, 3), dqkv = noise(backend, memory, wide, dtype, 1.0f, 4),
               lse = noise(backend, memory, {d.batch, d.heads, d.tokens}, acc_of(dtype), 1.0f, 5);
  backend.prepare_attention(d, dtype);
  const std::int64_t shards = backend.whole_batch() ? 1 : std::min<std::int64_t>(pool.threads(), d.batch);
  const auto third = [&](const Tensor& t, std::int64_t i) {
    char* at = static_cast<char*>(t.raw()) + static_cast<std::size_t>(i * d.width()) * size_of(dtype);
    return Tensor(at, {t.shape()[0], d.tokens, d.width()}, dtype);
  };
  struct Part {
    AttentionDims dims;
    Tensor qkv, dy, y, dqkv, lse;
  };
  std::vector<Part> parts;
  for (std::int64_t i = 0; i < shards; ++i) {
    const std::int64_t first = d.batch * i / shards, count = d.batch * (i + 1) / shards - first;
    const auto cut = [&](const Tensor& t) { return t.slice(first, count); };
    AttentionDims dims = d;
    dims.batch = count;
    parts.push_back({dims, cut(qkv), cut(dy), cut(y), cut(dqkv), cut(lse)});
  }
  const auto part = [&](Collective& c) -> const Part& { return parts[static_cast<std::size_t>(c.rank())]; };
  const auto input = [&](const Part& p) { return AttentionInput{third(p.qkv, 0), third(p.qkv, 1), third(p.qkv, 2)}; };
  const Timed forward(backend, pool, shards, false, [&](Collective& c) {
    const Part& p = part(c);
    backend.attention(p.dims, input(p), {p.y, p.lse});
  });
  const double forward_seconds = forward.seconds(seconds);
  const Timed backward(backend, pool, shards, false, [&](Collective& c) {
    const Part& p = part(c);
    const auto to = [&](std::int64_t i) { return Gradient{third(p.dqkv, i), Write::assign}; };
    backend.attention_backward(p.dims, input(p), {p.y, p.lse}, p.dy, {to(0), to(1), to(2)});
  });
  const double flops = 4 * double(d.batch) * double(d.heads) * double(d.tokens) * double(d.tokens) * double(d.head_dim);
  const auto bytes = [](const Tensor& t) { return double(t.bytes()); };
  return {{"attention forward", {flops, bytes(qkv) + bytes(y) + bytes(lse)}, forward_seconds},
          {"attention backward",
           {2.5 * flops, bytes(qkv) + bytes(dy) + bytes(y) + bytes(lse) + bytes(dqkv)},
           backward.seconds(seconds)}};
}

}  // namespace normlab
