#include "experiments/lab/bench/op_cases.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "core/backend.h"
#include "core/formula/program.h"

namespace normlab {
namespace {

using V = const std::vector<Var>&;

/// Of every seven values, two are dropped.
Tensor mask_of(Arena& memory, const Shape& shape) {
  const Tensor t = memory.empty(shape, DType::u8);
  for (std::int64_t i = 0; i < t.size(); ++i) t.data<std::uint8_t>()[i] = i % 7 != 1 && i % 7 != 4;
  return t;
}

Tensor filled(const Var& like, const Shape& shape, double value) {
  const Tensor t = like.tape().empty_acc(like.value(), shape);
  like.tape().backend().fill(t, value);
  return t;
}
Var constant(const Var& like, const Shape& shape, double value) {
  return like.tape().input(filled(like, shape, value));
}

SingleShard& alone() {
  thread_local SingleShard shard;
  return shard;
}

/// Of one shard; the running statistics are scratch.
Var batch_norm_of(V v, std::int64_t statistics_batch) {
  const Shape cols{v[0].shape().back()};
  const std::int64_t images = v[0].shape()[0];
  return batch_norm(v[0], v[1], v[2], filled(v[0], cols, 0.0), filled(v[0], cols, 1.0), {images, 0, images, &alone()},
                    {1e-5, 0.1, statistics_batch});
}

/// x, alpha, gamma, beta and, if kShift, the shift.
template <PointwisePhi kPhi, bool kShift>
Var pointwise(V v) {
  return pointwise_norm(kPhi, v[0], v[1], kShift ? v[4] : Var(), v[2], v[3]);
}

Var bhyt_composed(V v) {
  const Var normed = rms_norm(v[0], constant(v[0], {v[0].shape().back()}, 1.0), 1e-6);
  return scale(tanh(scale(scale(normed, v[1]), constant(v[0], {1}, 0.5))), v[2]);
}

}  // namespace

OpCase activation_op(const char* text, const Shape& shape, bool of_itself) {
  const auto programs = std::make_shared<formula::Programs>(
      formula::parse_rows(text), formula::Site{.channels = shape.back()}, std::vector<formula::Parameter>());
  const bool gated = programs->tree.reads(formula::kGate);
  const OpInput x(shape, 0.3, 0.8);
  return {text, std::vector<OpInput>(gated && !of_itself ? 2 : 1, x), {}, [=](V v) {
            return elementwise(*programs, v[0], gated ? v.back() : Var(), {});
          }};
}

std::vector<OpCase> norm_ops(const OpSizes& s) {
  const OpInput x(Shape{s.images, s.tokens, s.width}, 0.0, 0.8), alpha(Shape{1}, 0.25, 0.0), shift(Shape{1}, -0.5, 0.0),
      root(Shape{1}, 0.5, 0.0), cols{s.width};
  // x . beta, small enough for tanh to have a slope.
  const OpInput few(Shape{s.width}, 0.0, 1 / std::sqrt(double(s.width)));
  return {
      {"layer_norm",
       {x},
       {cols, cols},
       [](V v) { return layer_norm(v[0], v[1], v[2], 1e-6); },
       [](V v) { return affine(layer_norm(v[0], Var(), Var(), 1e-6), v[1], v[2]); }},
      {"layer_norm_fixed", {x}, {}, [](V v) { return layer_norm(v[0], Var(), Var(), 1e-6); }},
      {"rms_norm", {x}, {cols}, [](V v) { return rms_norm(v[0], v[1], 1e-6); }},
      {"l2_norm", {x}, {cols}, [](V v) { return l2_norm(v[0], v[1], 1e-6); }},
      {"group_norm", {x}, {cols, cols}, [](V v) { return group_norm(v[0], v[1], v[2], 1, 1e-6); }},
      {"affine", {x}, {cols, cols}, [](V v) { return affine(v[0], v[1], v[2]); }},
      {"seednorm", {x}, {cols, few, cols}, [](V v) { return seednorm(v[0], v[1], v[2], v[3], 1e-6); }},
      {"bhyt", {x}, {alpha, cols}, [](V v) { return bhyt(v[0], v[1], v[2], 2.0, 1e-6); }, bhyt_composed},
      {"dyisru",  // its alpha is positive
       {x},
       {root, cols, cols},
       [](V v) { return pointwise_norm(PointwisePhi::dyisru, v[0], scale(v[1], v[1]), Var(), v[2], v[3]); }},
      {"dyt",
       {x},
       {alpha, cols, cols},
       pointwise<PointwisePhi::tanh, false>,
       [](V v) { return affine(tanh(scale(v[0], v[1])), v[2], v[3]); }},
      {"derf", {x}, {alpha, cols, cols, shift}, pointwise<PointwisePhi::erf, true>},
      {"pointwise isru", {x}, {alpha, cols, cols}, pointwise<PointwisePhi::isru, false>},
      {"pointwise softsign", {x}, {alpha, cols, cols, shift}, pointwise<PointwisePhi::softsign, true>},
      {"pointwise atan", {x}, {alpha, cols, cols, shift}, pointwise<PointwisePhi::atan, true>},
      {"pointwise hardtanh", {x}, {alpha, cols, cols, shift}, pointwise<PointwisePhi::hardtanh, true>},
      {"batch_norm", {x}, {cols, cols}, [](V v) { return batch_norm_of(v, 0); }},
      {"batch_norm_frozen",
       {x},
       {cols, cols},
       [](V v) {
         const Shape width{v[0].shape().back()};
         return batch_norm_frozen(v[0], v[1], v[2], filled(v[0], width, 0.5), filled(v[0], width, 2.0), 1e-5);
       }},
  };
}

std::vector<OpCase> network_ops(Arena& memory, const OpSizes& s) {
  const OpInput x{s.images, s.tokens, s.width}, token{s.images, 1, s.width}, cols{s.width},
      grid{s.images, s.side * s.side, s.width}, logits{s.images, s.classes}, hidden{s.images, s.tokens, s.hidden};
  const std::int64_t side = s.side, window = side / 2, heads = s.heads, patch = s.patch;
  const OpInput windows{4 * s.images, window * window, s.width},
      qkv_windows{4 * s.images, window * window, 3 * s.width}, table{(2 * window - 1) * (2 * window - 1), s.heads};
  const Windows cut{side, side, window, window / 2, window / 2};
  const Tensor keep_values = mask_of(memory, x.shape), keep_images = mask_of(memory, {s.images});
  const Tensor labels = memory.empty({s.images}, DType::i32);
  for (std::int64_t i = 0; i < s.images; ++i) labels.data<std::int32_t>()[i] = std::int32_t((2 + 3 * i) % s.classes);
  std::vector<OpCase>
      rows = norm_ops(s),
      others{
          {"linear", {x}, {{s.hidden, s.width}, {s.hidden}}, [](V v) { return linear(v[0], v[1], v[2]); }},
          {"linear_gelu",
           {x},
           {{s.hidden, s.width}, {s.hidden}},
           [](V v) { return linear_gelu(v[0], v[1], v[2], GeluForm::erf); },
           [](V v) { return gelu(linear(v[0], v[1], v[2]), GeluForm::erf); },
           true},
          {"linear_add",
           {x, x},
           {{s.width, s.width}, cols},
           [](V v) { return linear_add(v[0], v[2], v[3], v[1]); },
           [](V v) { return add(v[1], linear(v[0], v[2], v[3])); },
           true},
          {"tanh", {x}, {}, [](V v) { return tanh(v[0]); }},
          {"gelu", {hidden}, {}, [](V v) { return gelu(v[0], GeluForm::erf); }},
          {"add", {x, x}, {}, [](V v) { return add(v[0], v[1]); }},
          {"scale", {x}, {cols}, [](V v) { return scale(v[0], v[1]); }},
          {"attention", {{s.images, s.tokens, 3 * s.width}}, {}, [=](V v) { return attention(v[0], heads); }},
          {"attention of q, k and v", {x, x, x}, {}, [=](V v) { return attention(v[0], v[1], v[2], heads); }},
          {"token_attention", {token, x, x}, {}, [=](V v) { return token_attention(v[0], v[1], v[2], heads); }},
          {"token_attention of kv",
           {token, {s.images, s.tokens, 2 * s.width}},
           {},
           [=](V v) { return token_attention(v[0], v[1], heads); }},
          {"cut_windows", {grid}, {}, [=](V v) { return cut_windows(v[0], cut); }},
          {"join_windows", {windows}, {}, [=](V v) { return join_windows(v[0], cut); }},
          {"window_attention", {qkv_windows}, {table}, [=](V v) { return window_attention(v[0], v[1], heads, cut); }},
          {"merge_patches", {grid}, {}, [=](V v) { return merge_patches(v[0], side, side); }},
          {"patchify",
           {{s.images, side * patch, side * patch, 3}},
           {},
           [=](V v) { return patchify(v[0], patch, patch); }},
          {"add_positions", {x}, {{1, s.tokens, s.width}}, [](V v) { return add_positions(v[0], v[1]); }},
          {"mean_tokens", {x}, {}, [](V v) { return mean_tokens(v[0]); }},
          {"prepend_tokens", {x}, {{1, 2, s.width}}, [](V v) { return prepend_tokens(v[1], v[0]); }},
          {"concat_tokens", {token, x}, {}, [](V v) { return concat_tokens(v[0], v[1]); }},
          {"select_tokens", {x}, {}, [](V v) { return select_tokens(v[0], 0, 1); }},
          {"dropout", {x}, {}, [=](V v) { return dropout(v[0], keep_values, 0.3); }},
          {"dropout_add",
           {x, x},
           {},
           [=](V v) { return dropout_add(v[0], keep_values, 0.3, v[1]); },
           [=](V v) { return add(v[1], dropout(v[0], keep_values, 0.3)); }},
          {"drop_path_add", {x, x}, {}, [=](V v) { return dropout_add(v[0], keep_images, 0.3, v[1]); }},
          {"softmax_cross_entropy",
           {logits},
           {},
           [=](V v) {
             return softmax_cross_entropy(v[0], {labels, {}});
           }},
          {"sigmoid_cross_entropy",
           {logits},
           {},
           [=](V v) {
             return sigmoid_cross_entropy(v[0], {labels, {}});
           }},
      };
  if (const std::int64_t head_dim = s.width / heads; head_dim % 2 == 0)
    others.push_back({"rotate", {x}, {}, [=](V v) {
                        const Rotation turns{.turned = v[0].shape()[2], .head_dim = head_dim, .first = 1};
                        return rotate(v[0], filled(v[0], {v[0].shape()[1] - 1, head_dim}, 0.6), turns);
                      }});
  std::move(others.begin(), others.end(), std::back_inserter(rows));
  for (const char* text : kActivationOps) rows.push_back(activation_op(text, hidden.shape));
  return rows;
}

}  // namespace normlab
