// Further rows for the table of operations: ragged ends, variables used twice, optional arguments.
#pragma once

#include <cmath>

#include "autograd/contrast.h"
#include "autograd/ops.h"
#include "core/backend.h"
#include "core/formula/program.h"
#include "experiments/lab/bench/op_cases.h"
#include "tests/cuda_emulation/formulas.h"

namespace normlab {

using V = const std::vector<Var>&;

inline Tensor labels_of(Arena& memory, const Shape& shape, const std::vector<std::int32_t>& values) {
  const Tensor t = memory.empty(shape, DType::i32);
  for (std::int64_t i = 0; i < t.size(); ++i)
    t.data<std::int32_t>()[i] = values[static_cast<std::size_t>(i) % values.size()];
  return t;
}

/// Keeps some of every few values; a few of the values kept are zeros.
inline Tensor mask_of(Arena& memory, const Shape& shape, const std::vector<int>& values) {
  const Tensor t = memory.empty(shape, DType::u8);
  for (std::int64_t i = 0; i < t.size(); ++i)
    t.data<std::uint8_t>()[i] = std::uint8_t(values[static_cast<std::size_t>(i) % values.size()]);
  return t;
}
inline const std::vector<int> kUneven{1, 0, 1, 1, 0, 1, 1};

/// A row of targets in the type of statistics, whose sum is 1.
inline Tensor probabilities(const Var& like) {
  const std::int64_t rows = like.shape()[0], classes = like.shape()[1];
  const Tensor t = like.tape().empty_acc(like.value(), like.shape());
  like.tape().backend().synchronize();
  for (std::int64_t i = 0; i < rows * classes; ++i) {
    const double value = double(1 + (i % classes + i / classes) % classes) / double(classes * (classes + 1) / 2);
    if (t.dtype() == DType::f64)
      t.data<double>()[i] = value;
    else
      t.data<float>()[i] = float(value);
  }
  return t;
}

inline Tensor filled(const Var& like, const Shape& shape, double value) {
  const Tensor t = like.tape().empty_acc(like.value(), shape);
  like.tape().backend().fill(t, value);
  return t;
}
inline Var constant(const Var& like, const Shape& shape, double value) {
  return like.tape().input(filled(like, shape, value));
}

/// Cosines and sines of some angles, of which no two are alike.
inline Tensor turns_of(const Var& like, std::int64_t tokens, std::int64_t head_dim) {
  const Tensor t = like.tape().empty_acc(like.value(), {tokens, head_dim});
  like.tape().backend().synchronize();
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const std::int64_t half = head_dim / 2, row = i / head_dim, at = i % head_dim;
    const double angle = 0.3 + 0.7 * double(row * half + at % half);
    const double value = at < half ? std::cos(angle) : std::sin(angle);
    if (t.dtype() == DType::f64)
      t.data<double>()[i] = value;
    else
      t.data<float>()[i] = float(value);
  }
  return t;
}

inline Var contrast_of(V v, ContrastKind kind) {
  static SingleShard alone;
  const std::int64_t pairs = v[0].shape()[0];
  return contrastive_loss(v[0], v[1], v[2], v[3], kind, {pairs, 0, pairs, &alone});
}

inline Var first_token(const Var& x) { return reshape(select_tokens(x, 0, 1), {x.shape()[0], 1, x.shape()[2]}); }

/// linear_gelu, open where the device continues through it.
inline Activation activation(const Var& x, const Var& weight, const Var& bias, GeluForm form) {
  if (x.tape().backend().has_products_through_gelu(form, x.value().dtype())) return {x, weight, bias, form};
  return linear_gelu(x, weight, bias, form);
}

/// The product of x with `count` parts of stacked weights and, unless absent, a stacked bias.
inline Var part_of_linear(const Var& x, const Var& weight, const Var& bias, std::int64_t part, std::int64_t parts) {
  const std::int64_t in = weight.shape()[1], out = weight.shape()[0] / parts;
  const Var w = select_tokens(reshape(weight, {1, out * parts, in}), part * out, out);
  const Var b = bias ? reshape(select_tokens(reshape(bias, {1, out * parts, 1}), part * out, out), {out}) : Var();
  return linear(x, reshape(w, {out, in}), b);
}

template <class Rows>
void append(std::vector<OpCase>& to, Rows&& rows) {
  std::move(rows.begin(), rows.end(), std::back_inserter(to));
}

inline std::vector<OpCase> dense_cases() {
  std::vector<OpCase> cases{{"linear without bias", {{3, 7}}, {{2, 7}}, [](V v) { return linear(v[0], v[1], Var()); }},
                            {"linear, weight used twice",
                             {{3, 4}},
                             {{4, 4}, {4}},
                             [](V v) { return linear(linear(v[0], v[1], v[2]), v[1], Var()); }},
                            {"linear_gelu tanh, no bias",
                             {{3, 5}},
                             {{300, 5}},
                             [](V v) { return linear_gelu(v[0], v[1], Var(), GeluForm::tanh); }},
                            {"linear_add of wide rows",
                             {{2, 5, 7}, {2, 5, 35}},
                             {{35, 7}, {35}},
                             [](V v) { return linear_add(v[0], v[2], v[3], v[1]); },
                             [](V v) { return add(v[1], linear(v[0], v[2], v[3])); },
                             true},
                            {"linear_add to its own input",
                             {{2, 5, 7}},
                             {{7, 7}},
                             [](V v) { return linear_add(v[0], v[1], Var(), v[0]); },
                             [](V v) { return add(v[0], linear(v[0], v[1], Var())); },
                             true}};
  for (const GeluForm form : {GeluForm::erf, GeluForm::tanh})
    append(cases, std::vector<OpCase>{{"linear_gelu",
                                       {{2, 5, 7}},
                                       {{11, 7}, {11}},
                                       [=](V v) { return linear_gelu(v[0], v[1], v[2], form); },
                                       [=](V v) { return gelu(linear(v[0], v[1], v[2]), form); },
                                       true},
                                      {"gelu", {{3, 17}}, {}, [=](V v) { return gelu(v[0], form); }},
                                      {"activation",
                                       {{2, 3, 5}},
                                       {{40, 5}, {40}, {2, 40}, {2}},
                                       [=](V v) { return linear(activation(v[0], v[1], v[2], form), v[3], v[4]); },
                                       [=](V v) { return linear(linear_gelu(v[0], v[1], v[2], form), v[3], v[4]); },
                                       true},
                                      {"activation, two layers",
                                       {{2, 5, 7}, {2, 5, 6}},
                                       {{11, 7}, {11}, {6, 11}, {6}},
                                       [=](V v) {
                                         const Activation h = activation(v[0], v[2], v[3], form);
                                         return linear_add(h, v[4], Var(), linear_add(h, v[4], v[5], v[1]));
                                       },
                                       [=](V v) {
                                         const Var h = linear_gelu(v[0], v[2], v[3], form);
                                         return linear_add(h, v[4], Var(), linear_add(h, v[4], v[5], v[1]));
                                       },
                                       true}});
  return cases;
}

inline std::vector<OpCase> small_cases() {
  return {
      {"add of a variable to itself", {{2, 3}}, {}, [](V v) { return add(v[0], v[0]); }},
      {"a variable used three times",
       {{2, 3}},
       {},
       [](V v) { return add(add(v[0], gelu(v[0], GeluForm::erf)), tanh(v[0])); }},
      {"scale by head", {{2, 2, 6}}, {{3}}, [](V v) { return scale(v[0], v[1]); }},
      {"scale by one number", {{3, 6}}, {{1}}, [](V v) { return scale(v[0], v[1]); }},
      {"reshape",
       {{2, 6}},
       {},
       [](V v) {
         return tanh(reshape(v[0], {3, 4}));
       }},
      {"layer_norm of 33", {{5, 33}}, {{33}, {33}}, [](V v) { return layer_norm(v[0], v[1], v[2], 1e-6); }},
      {"layer_norm, one row of two", {{1, 2}}, {{2}, {2}}, [](V v) { return layer_norm(v[0], v[1], v[2], 1e-2); }},
      {"rms_norm of 9", {{5, 9}}, {{9}}, [](V v) { return rms_norm(v[0], v[1], 1e-6); }},
      {"group_norm of two groups", {{2, 3, 6}}, {{6}, {6}}, [](V v) { return group_norm(v[0], v[1], v[2], 2, 1e-6); }},
      {"batch_norm of two and a ragged group",
       {{5, 3, 4}},
       {{4}, {4}},
       [](V v) {
         static SingleShard alone;
         return batch_norm(v[0], v[1], v[2], filled(v[0], {4}, 0.0), filled(v[0], {4}, 1.0), {5, 0, 5, &alone},
                           {1e-5, 0.1, 2});
       }},
      {"patchify of oblong patches", {{2, 4, 6, 3}}, {}, [](V v) { return patchify(v[0], 2, 3); }},
      {"resample, larger and smaller",
       {{2, 3, 5, 2}},
       {},
       [](V v) { return resample(v[0], 7, 2, Resampling::bicubic_antialias); }},
      {"resample by corners, used twice",
       {{1, 4, 3, 3}},
       {},
       [](V v) { return add(v[0], resample(v[0], 4, 3, Resampling::corners)); }},
      {"select_tokens, several, used twice",
       {{3, 4, 5}},
       {},
       [](V v) { return concat_tokens(select_tokens(v[0], 1, 2), v[0]); }},
      {"rotate q and k beside v",
       {{2, 4, 24}},
       {},
       [](V v) {
         return rotate(v[0], turns_of(v[0], 3, 4), {16, 4, 1, RotaryPairs::halves});
       }},
      {"rotate neighbours of wide heads, used twice",
       {{2, 3, 140}},
       {},
       [](V v) {
         return add(rotate(v[0], turns_of(v[0], 3, 70), {140, 70, 0, RotaryPairs::neighbours}), tanh(v[0]));
       }},
      {"prepend_tokens, used twice",
       {{3, 2, 5}},
       {{1, 4, 5}},
       [](V v) { return prepend_tokens(v[1], prepend_tokens(v[1], v[0])); }},
      {"unit_rows of 37", {{4, 37}}, {}, [](V v) { return unit_rows(v[0]); }},
  };
}

inline std::vector<OpCase> attention_cases(Arena& memory) {
  const Tensor keep_weights = mask_of(memory, {2, 3, 5, 5}, kUneven);
  const Tensor keep_windows = mask_of(memory, {8, 2, 9, 9}, kUneven);
  std::vector<OpCase> cases{
      {"attention on itself", {{1, 4, 6}}, {}, [](V v) { return attention(v[0], v[0], v[0], 2); }},
      {"attention with dropped weights",
       {{2, 5, 6}, {2, 5, 6}, {2, 5, 6}},
       {},
       [=](V v) { return attention(v[0], v[1], v[2], 3, keep_weights, 0.3); }},
      {"attention of one head",
       {{1, 6, 5}, {1, 6, 5}, {1, 6, 5}},
       {},
       [](V v) { return attention(v[0], v[1], v[2], 1); }},
      {"token_attention, all used twice",
       {{2, 1, 6}, {2, 5, 6}},
       {},
       [](V v) { return add(token_attention(v[0], v[1], v[1], 2), token_attention(tanh(v[0]), v[1], v[1], 1)); }},
      {"token_attention of the first token",
       {{2, 5, 6}, {2, 5, 6}, {2, 5, 6}},
       {},
       [](V v) { return token_attention(first_token(v[0]), v[1], v[2], 3); },
       [](V v) { return first_token(attention(v[0], v[1], v[2], 3)); }},
      {"token_attention, k and v side by side",  // more tokens than a block of the GPU has threads
       {{2, 150, 4}},
       {{8, 4}},
       [](V v) { return token_attention(first_token(v[0]), linear(v[0], v[1], Var()), 2); },
       [](V v) {
         const auto half = [&](int which) { return part_of_linear(v[0], v[1], Var(), which, 2); };
         return first_token(attention(v[0], half(0), half(1), 2));
       }},
      {"cut_windows with padding, used twice",
       {{2, 20, 3}},
       {},
       [](V v) {
         return add(add(tanh(cut_windows(v[0], {4, 5, 3, 1, 1})), cut_windows(v[0], {4, 5, 3})),
                    cut_windows(v[0], {4, 5, 3, 0, 1, WindowPadding::after_shift}));
       }},
      {"join_windows, padding left out",
       {{8, 9, 3}},
       {},
       [](V v) {
         const Windows windows{4, 5, 3, 1, 1}, after{4, 5, 3, 1, 1, WindowPadding::after_shift};
         return add(add(join_windows(v[0], windows), tanh(join_windows(v[0], {4, 5, 3}))), join_windows(v[0], after));
       }},
      {"merge_patches of odd sides, used twice",
       {{2, 15, 2}},
       {},
       [](V v) { return add(merge_patches(v[0], 3, 5), tanh(merge_patches(v[0], 3, 5))); }},
      {"window_attention of q, k and v",
       {{12, 4, 6}, {12, 4, 6}, {12, 4, 6}},
       {{9, 3}},
       [](V v) {
         return window_attention(v[0], v[1], v[2], v[3], 3, {4, 6, 2, 0});
       }},
      {"window_attention, one window",
       {{2, 9, 12}},
       {{25, 2}},
       [](V v) {
         return window_attention(v[0], v[1], 2, {3, 3, 3, 0});
       }},
      {"window_attention, shifted, padded, dropped, table used twice", {{8, 9, 12}}, {{25, 2}}, [=](V v) {
         return add(window_attention(v[0], v[1], 2, {4, 5, 3, 1, 1}, keep_windows, 0.3),
                    window_attention(v[0], v[1], 2, {4, 5, 3, 0, 1}));
       }}};
  for (const bool drops : {false, true}) {
    const Tensor keep = drops ? keep_weights : Tensor();
    const double rate = drops ? 0.25 : 0.0;
    cases.push_back({"attention of a packed product",
                     {{2, 5, 6}},
                     {{18, 6}, {18}},
                     [=](V v) { return attention(linear(v[0], v[1], v[2]), 3, keep, rate); },
                     [=](V v) {
                       const auto third = [&](int which) { return part_of_linear(v[0], v[1], v[2], which, 3); };
                       return attention(third(0), third(1), third(2), 3, keep, rate);
                     }});
  }
  return cases;
}

/// Activations that are formulas, in rows of other widths, and what attention does to its heads.
inline std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> cases;
  for (const auto& [text, cols, of_itself] : formula::kElementwiseCases)
    cases.push_back(activation_op(text, {2, 3, cols}, of_itself));
  return cases;
}

inline std::vector<OpCase> loss_cases(Arena& memory) {
  const Tensor labels = labels_of(memory, {3}, {2, 0, 4});
  const Tensor pixels = labels_of(memory, {1, 2, 3}, {255, 0, 4, 2, 255, 2});
  const Tensor words = labels_of(memory, {2, 3}, {3, 0, 3, 5, 3, 1});
  return {
      {"softmax_cross_entropy, smoothed over all",
       {{3, 5}},
       {},
       [=](V v) {
         return softmax_cross_entropy(v[0], {labels, {}, 0.1});
       }},
      {"softmax_cross_entropy, smoothed over others",
       {{3, 5}},
       {},
       [=](V v) {
         return softmax_cross_entropy(v[0], {labels, {}, 0.1, Smoothing::others});
       }},
      {"softmax_cross_entropy, soft",
       {{3, 5}},
       {},
       [](V v) {
         return softmax_cross_entropy(v[0], {{}, probabilities(v[0])});
       }},
      {"sigmoid_cross_entropy, soft",
       {{3, 5}},
       {},
       [](V v) {
         return sigmoid_cross_entropy(v[0], {{}, probabilities(v[0])});
       }},
      {"pixel_softmax_cross_entropy, some pixels ignored",
       {{1, 2, 3, 5}},
       {},
       [=](V v) { return pixel_softmax_cross_entropy(v[0], pixels); }},
      {"embed", {}, {{6, 5}}, [=](V v) { return embed(v[0], words, v[0].value().dtype()); }},
      {"contrastive_loss, softmax",
       {},
       {{4, 3}, {4, 3}, {1}, {1}},
       [](V v) { return contrast_of(v, ContrastKind::softmax); }},
      {"contrastive_loss, sigmoid",
       {},
       {{4, 3}, {4, 3}, {1}, {1}},
       [](V v) { return contrast_of(v, ContrastKind::sigmoid); }},
  };
}

inline std::vector<OpCase> mask_cases(Arena& memory) {
  const Tensor keep_some = mask_of(memory, {6}, {0, 1, 1, 0, 0, 1});
  std::vector<OpCase> cases{{"gather_images", {{6, 5}}, {}, [=](V v) { return gather_images(v[0], keep_some); }},
                            {"scatter_add_images", {{3, 2, 5}, {6, 2, 5}}, {}, [=](V v) {
                               return scatter_add_images(v[0], keep_some, 0.5, v[1]);
                             }}};
  for (const std::vector<int>& kept : {std::vector{1, 0, 0, 1, 1}, std::vector{0, 1, 1, 0, 0}, std::vector{1}}) {
    const Tensor keep = mask_of(memory, {5}, kept);
    for (const int residual : {1, 0})
      cases.push_back({residual == 1 ? "scatter_add_images of a branch" : "scatter_add_images to the branch's input",
                       residual == 1 ? std::vector<OpInput>{{5, 4, 3}, {5, 4, 3}} : std::vector<OpInput>{{5, 4, 3}},
                       {},
                       [=](V v) {
                         return scatter_add_images(tanh(gather_images(v[0], keep)), keep, 0.3,
                                                   v[std::size_t(residual)]);
                       },
                       [=](V v) { return dropout_add(tanh(v[0]), keep, 0.3, v[std::size_t(residual)]); },
                       true});
  }
  return cases;
}

/// All rows: those of a network at small sizes, and these.
inline std::vector<OpCase> op_cases(Arena& memory) {
  std::vector<OpCase> cases = network_ops(memory, {});
  append(cases, dense_cases());
  append(cases, elementwise_cases());
  append(cases, small_cases());
  append(cases, attention_cases(memory));
  append(cases, loss_cases(memory));
  append(cases, mask_cases(memory));
  return cases;
}

}  // namespace normlab
