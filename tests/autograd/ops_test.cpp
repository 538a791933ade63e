// Every operation against finite differences in double, its shape errors, and a step in bf16.
#include "autograd/ops.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/contrast.h"
#include "autograd/grad_check.h"
#include "autograd/tape.h"
#include "tests/devices.h"

using namespace normlab;

namespace {

using Vars = std::vector<Var>;
struct OpCase {
  const char* name;
  std::vector<Shape> inputs;
  std::function<Var(Tape&, const Vars&)> f;
};

Tensor labels_of(Arena& arena, std::vector<std::int32_t> values) {
  Tensor t = arena.empty({static_cast<std::int64_t>(values.size())}, DType::i32);
  std::copy(values.begin(), values.end(), t.data<std::int32_t>());
  return t;
}

Tensor keep_of(Arena& arena, const Shape& shape, double rate) {
  Tensor t = arena.empty(shape, DType::u8);
  const StreamKey key = stream_key(3, "test", "keep");
  for (std::int64_t i = 0; i < t.size(); ++i)
    t.data<std::uint8_t>()[i] = keep(draw(key, static_cast<std::uint64_t>(i))[0], drop_threshold(rate));
  return t;
}

Tensor probabilities(Arena& arena, std::int64_t rows, std::int64_t classes) {
  Tensor t = randn(arena, {rows, classes}, DType::f64, 5);
  for (std::int64_t r = 0; r < rows; ++r) {
    double total = 0.0;
    for (std::int64_t c = 0; c < classes; ++c)
      total += t.data<double>()[r * classes + c] = std::exp(t.data<double>()[r * classes + c]);
    for (std::int64_t c = 0; c < classes; ++c) t.data<double>()[r * classes + c] /= total;
  }
  return t;
}

/// Batch norm of one shard; the running statistics are scratch.
Var batch_norm_of(Tape& tape, const Vars& in, std::int64_t statistics_batch) {
  static SingleShard alone;
  const std::int64_t cols = in[0].shape().back(), images = in[0].shape()[0];
  Tensor mean = tape.empty({cols}, DType::f64), var = tape.empty({cols}, DType::f64);
  std::fill_n(mean.data<double>(), cols, 0.0);
  std::fill_n(var.data<double>(), cols, 1.0);
  return batch_norm(in[0], in[1], in[2], mean, var, {images, 0, images, &alone}, {1e-5, 0.1, statistics_batch});
}

Var contrast_of(const Vars& v, ContrastKind kind) {
  static SingleShard alone;
  return contrastive_loss(v[0], v[1], v[2], v[3], kind, {4, 0, 4, &alone});
}

/// x, alpha, gamma, beta and, if kShift, the shift.
template <PointwisePhi kPhi, bool kShift>
Var pointwise(Tape&, const Vars& v) {
  return pointwise_norm(kPhi, v[0], v[1], kShift ? v[4] : Var(), v[2], v[3]);
}

std::vector<OpCase> op_cases(Arena& arena) {
  const Tensor labels = labels_of(arena, {2, 0, 4});
  const Tensor words = labels_of(arena, {3, 0, 3, 5, 3, 1}).reshape({2, 3});
  const Tensor soft = probabilities(arena, 3, 5);
  const Tensor pixel_labels = labels_of(arena, {255, 0, 4, 2, 255, 2}).reshape({1, 2, 3});
  const Tensor keep_weights = keep_of(arena, {2, 3, 5, 5}, 0.3);
  const Tensor keep_windows = keep_of(arena, {8, 2, 9, 9}, 0.3);
  const Tensor keep_values = keep_of(arena, {2, 5, 3}, 0.4), keep_images = keep_of(arena, {4}, 0.5);
  const Tensor keep_some = arena.empty({6}, DType::u8);
  for (std::int64_t i = 0; i < 6; ++i) keep_some.data<std::uint8_t>()[i] = i == 1 || i == 2 || i == 5;
  return {
      {"linear", {{2, 3, 5}, {4, 5}, {4}}, [](Tape&, const Vars& v) { return linear(v[0], v[1], v[2]); }},
      {"linear without bias", {{3, 7}, {2, 7}}, [](Tape&, const Vars& v) { return linear(v[0], v[1], Var()); }},
      {"linear, weight used twice",
       {{3, 4}, {4, 4}, {4}},
       [](Tape&, const Vars& v) { return linear(linear(v[0], v[1], v[2]), v[1], Var()); }},
      {"linear_gelu erf",
       {{2, 3, 5}, {4, 5}, {4}},
       [](Tape&, const Vars& v) { return linear_gelu(v[0], v[1], v[2], GeluForm::erf); }},
      {"linear_gelu tanh, no bias",
       {{3, 5}, {300, 5}},
       [](Tape&, const Vars& v) { return linear_gelu(v[0], v[1], Var(), GeluForm::tanh); }},
      {"activation erf",
       {{2, 3, 5}, {40, 5}, {40}, {2, 40}, {2}},
       [](Tape&, const Vars& v) { return linear(Activation(v[0], v[1], v[2], GeluForm::erf), v[3], v[4]); }},
      {"activation tanh",
       {{3, 5}, {9, 5}, {9}, {2, 9}, {3, 2}},
       [](Tape&, const Vars& v) {
         return linear_add(Activation(v[0], v[1], v[2], GeluForm::tanh), v[3], Var(), v[4]);
       }},
      {"gelu erf", {{3, 17}}, [](Tape&, const Vars& v) { return gelu(v[0], GeluForm::erf); }},
      {"gelu tanh", {{3, 17}}, [](Tape&, const Vars& v) { return gelu(v[0], GeluForm::tanh); }},
      {"tanh", {{5, 3}}, [](Tape&, const Vars& v) { return tanh(v[0]); }},
      {"add", {{2, 3}, {2, 3}}, [](Tape&, const Vars& v) { return add(v[0], v[1]); }},
      {"add of a variable to itself", {{2, 3}}, [](Tape&, const Vars& v) { return add(v[0], v[0]); }},
      {"a variable used three times",
       {{2, 3}},
       [](Tape&, const Vars& v) { return add(add(v[0], gelu(v[0], GeluForm::erf)), tanh(v[0])); }},
      {"scale by channel", {{3, 6}, {6}}, [](Tape&, const Vars& v) { return scale(v[0], v[1]); }},
      {"scale by head", {{2, 2, 6}, {3}}, [](Tape&, const Vars& v) { return scale(v[0], v[1]); }},
      {"scale by one number", {{3, 6}, {1}}, [](Tape&, const Vars& v) { return scale(v[0], v[1]); }},
      {"softmax", {{2, 3, 7}}, [](Tape&, const Vars& v) { return softmax(v[0]); }},
      {"reshape",
       {{2, 6}},
       [](Tape&, const Vars& v) {
         return tanh(reshape(v[0], {3, 4}));
       }},
      {"layer_norm", {{5, 33}, {33}, {33}}, [](Tape&, const Vars& v) { return layer_norm(v[0], v[1], v[2], 1e-6); }},
      {"layer_norm, one row of two",
       {{1, 2}, {2}, {2}},
       [](Tape&, const Vars& v) { return layer_norm(v[0], v[1], v[2], 1e-2); }},
      {"layer_norm without parameters",
       {{4, 8}},
       [](Tape&, const Vars& v) { return layer_norm(v[0], Var(), Var(), 1e-6); }},
      {"rms_norm", {{5, 9}, {9}}, [](Tape&, const Vars& v) { return rms_norm(v[0], v[1], 1e-6); }},
      {"group_norm", {{2, 3, 6}, {6}, {6}}, [](Tape&, const Vars& v) { return group_norm(v[0], v[1], v[2], 2, 1e-6); }},
      {"affine", {{5, 9}, {9}, {9}}, [](Tape&, const Vars& v) { return affine(v[0], v[1], v[2]); }},
      {"l2_norm", {{5, 9}, {9}}, [](Tape&, const Vars& v) { return l2_norm(v[0], v[1], 1e-6); }},
      {"seednorm",
       {{5, 9}, {9}, {9}, {9}},
       [](Tape&, const Vars& v) { return seednorm(v[0], v[1], v[2], v[3], 1e-6); }},
      {"bhyt", {{5, 9}, {1}, {9}}, [](Tape&, const Vars& v) { return bhyt(v[0], v[1], v[2], 2.0, 1e-6); }},
      {"dyisru",  // its alpha is positive
       {{5, 9}, {1}, {9}, {9}},
       [](Tape&, const Vars& v) {
         return pointwise_norm(PointwisePhi::dyisru, v[0], scale(v[1], v[1]), Var(), v[2], v[3]);
       }},
      {"dyt", {{5, 9}, {1}, {9}, {9}}, pointwise<PointwisePhi::tanh, false>},
      {"derf", {{5, 9}, {1}, {9}, {9}, {1}}, pointwise<PointwisePhi::erf, true>},
      {"pointwise isru", {{5, 9}, {1}, {9}, {9}}, pointwise<PointwisePhi::isru, false>},
      {"pointwise softsign", {{5, 9}, {1}, {9}, {9}, {1}}, pointwise<PointwisePhi::softsign, true>},
      {"pointwise atan", {{5, 9}, {1}, {9}, {9}, {1}}, pointwise<PointwisePhi::atan, true>},
      {"pointwise hardtanh", {{5, 9}, {1}, {9}, {9}, {1}}, pointwise<PointwisePhi::hardtanh, true>},
      {"batch_norm", {{6, 3, 4}, {4}, {4}}, [](Tape& t, const Vars& v) { return batch_norm_of(t, v, 0); }},
      {"batch_norm of two and a ragged group",
       {{5, 3, 4}, {4}, {4}},
       [](Tape& t, const Vars& v) { return batch_norm_of(t, v, 2); }},
      {"batch_norm frozen",
       {{5, 4}, {4}, {4}},
       [](Tape& tape, const Vars& v) {
         Tensor mean = tape.empty({4}, DType::f64), var = tape.empty({4}, DType::f64);
         for (int c = 0; c < 4; ++c) mean.data<double>()[c] = 0.1 * c, var.data<double>()[c] = 0.5 + c;
         return batch_norm_frozen(v[0], v[1], v[2], mean, var, 1e-5);
       }},
      {"attention",
       {{2, 5, 6}, {2, 5, 6}, {2, 5, 6}},
       [](Tape&, const Vars& v) { return attention(v[0], v[1], v[2], 3); }},
      {"attention of qkv", {{2, 4, 18}}, [](Tape&, const Vars& v) { return attention(v[0], 3); }},
      {"attention on itself", {{1, 4, 6}}, [](Tape&, const Vars& v) { return attention(v[0], v[0], v[0], 2); }},
      {"attention with dropped weights",
       {{2, 5, 6}, {2, 5, 6}, {2, 5, 6}},
       [=](Tape&, const Vars& v) { return attention(v[0], v[1], v[2], 3, keep_weights, 0.3); }},
      {"token_attention",
       {{2, 1, 6}, {2, 5, 6}, {2, 5, 6}},
       [](Tape&, const Vars& v) { return token_attention(v[0], v[1], v[2], 3); }},
      {"token_attention, all used twice",
       {{2, 1, 6}, {2, 5, 6}},
       [](Tape&, const Vars& v) {
         return add(token_attention(v[0], v[1], v[1], 2), token_attention(tanh(v[0]), v[1], v[1], 1));
       }},
      {"token_attention of k and v side by side",
       {{3, 1, 6}, {3, 4, 12}},
       [](Tape&, const Vars& v) { return token_attention(v[0], v[1], 3); }},
      {"cut_windows",
       {{2, 24, 3}},
       [](Tape&, const Vars& v) {
         return cut_windows(v[0], {4, 6, 2, 1, 1});
       }},
      {"cut_windows with padding, used twice",
       {{2, 20, 3}},
       [](Tape&, const Vars& v) {
         return add(add(tanh(cut_windows(v[0], {4, 5, 3, 1, 1})), cut_windows(v[0], {4, 5, 3})),
                    cut_windows(v[0], {4, 5, 3, 0, 1, WindowPadding::after_shift}));
       }},
      {"join_windows, padding left out",
       {{8, 9, 3}},
       [](Tape&, const Vars& v) {
         const Windows windows{4, 5, 3, 1, 1}, after{4, 5, 3, 1, 1, WindowPadding::after_shift};
         return add(add(join_windows(v[0], windows), tanh(join_windows(v[0], {4, 5, 3}))), join_windows(v[0], after));
       }},
      {"merge_patches of odd sides",
       {{2, 15, 2}},
       [](Tape&, const Vars& v) { return add(merge_patches(v[0], 3, 5), tanh(merge_patches(v[0], 3, 5))); }},
      {"window_attention",
       {{12, 4, 6}, {12, 4, 6}, {12, 4, 6}, {9, 3}},
       [](Tape&, const Vars& v) {
         return window_attention(v[0], v[1], v[2], v[3], 3, {4, 6, 2, 0});
       }},
      {"window_attention of qkv, one window",
       {{2, 9, 12}, {25, 2}},
       [](Tape&, const Vars& v) {
         return window_attention(v[0], v[1], 2, {3, 3, 3, 0});
       }},
      {"window_attention of qkv, shifted, padded, dropped, table used twice",
       {{8, 9, 12}, {25, 2}},
       [=](Tape&, const Vars& v) {
         return add(window_attention(v[0], v[1], 2, {4, 5, 3, 1, 1}, keep_windows, 0.3),
                    window_attention(v[0], v[1], 2, {4, 5, 3, 0, 1}));
       }},
      {"softmax_cross_entropy",
       {{3, 5}},
       [=](Tape&, const Vars& v) {
         return softmax_cross_entropy(v[0], {labels, {}});
       }},
      {"softmax_cross_entropy, smoothed over all",
       {{3, 5}},
       [=](Tape&, const Vars& v) {
         return softmax_cross_entropy(v[0], {labels, {}, 0.1});
       }},
      {"softmax_cross_entropy, smoothed over others",
       {{3, 5}},
       [=](Tape&, const Vars& v) {
         return softmax_cross_entropy(v[0], {labels, {}, 0.1, Smoothing::others});
       }},
      {"softmax_cross_entropy, soft",
       {{3, 5}},
       [=](Tape&, const Vars& v) {
         return softmax_cross_entropy(v[0], {{}, soft});
       }},
      {"sigmoid_cross_entropy",
       {{3, 5}},
       [=](Tape&, const Vars& v) {
         return sigmoid_cross_entropy(v[0], {labels, {}});
       }},
      {"sigmoid_cross_entropy, soft",
       {{3, 5}},
       [=](Tape&, const Vars& v) {
         return sigmoid_cross_entropy(v[0], {{}, soft});
       }},
      {"pixel_softmax_cross_entropy, some pixels ignored",
       {{1, 2, 3, 5}},
       [=](Tape&, const Vars& v) { return pixel_softmax_cross_entropy(v[0], pixel_labels); }},
      {"patchify", {{2, 4, 6, 3}}, [](Tape&, const Vars& v) { return patchify(v[0], 2, 3); }},
      {"resample, larger and smaller",
       {{2, 3, 5, 2}},
       [](Tape&, const Vars& v) { return resample(v[0], 7, 2, Resampling::bicubic_antialias); }},
      {"resample by corners, used twice",
       {{1, 4, 3, 3}},
       [](Tape&, const Vars& v) { return add(v[0], resample(v[0], 4, 3, Resampling::corners)); }},
      {"add_positions", {{3, 4, 5}, {1, 4, 5}}, [](Tape&, const Vars& v) { return add_positions(v[0], v[1]); }},
      {"mean_tokens", {{3, 4, 5}}, [](Tape&, const Vars& v) { return mean_tokens(v[0]); }},
      {"concat_token", {{1, 1, 5}, {3, 4, 5}}, [](Tape&, const Vars& v) { return concat_token(v[0], v[1]); }},
      {"concat_tokens", {{3, 2, 5}, {3, 4, 5}}, [](Tape&, const Vars& v) { return concat_tokens(v[0], v[1]); }},
      {"select_tokens", {{3, 4, 5}}, [](Tape&, const Vars& v) { return select_tokens(v[0], 0, 1); }},
      {"select_tokens, several, used twice",
       {{3, 4, 5}},
       [](Tape&, const Vars& v) { return concat_tokens(select_tokens(v[0], 1, 2), v[0]); }},
      {"embed", {{6, 5}}, [=](Tape&, const Vars& v) { return embed(v[0], words, DType::f64); }},
      {"unit_rows", {{4, 37}}, [](Tape&, const Vars& v) { return unit_rows(v[0]); }},
      {"contrastive_loss, softmax",
       {{4, 3}, {4, 3}, {1}, {1}},
       [](Tape&, const Vars& v) { return contrast_of(v, ContrastKind::softmax); }},
      {"contrastive_loss, sigmoid",
       {{4, 3}, {4, 3}, {1}, {1}},
       [](Tape&, const Vars& v) { return contrast_of(v, ContrastKind::sigmoid); }},
      {"dropout", {{2, 5, 3}}, [=](Tape&, const Vars& v) { return dropout(v[0], keep_values, 0.4); }},
      {"drop_path", {{4, 5}}, [=](Tape&, const Vars& v) { return drop_path(v[0], keep_images, 0.5); }},
      {"gather_images", {{6, 5}}, [=](Tape&, const Vars& v) { return gather_images(v[0], keep_some); }},
      {"gather_images, added",
       {{6, 5}},
       [=](Tape&, const Vars& v) { return scatter_add_images(gather_images(v[0], keep_some), keep_some, 0.5, v[0]); }},
      {"scatter_add_images",
       {{3, 2, 5}, {6, 2, 5}},
       [=](Tape&, const Vars& v) { return scatter_add_images(v[0], keep_some, 0.5, v[1]); }},
  };
}

}  // namespace

TEST_CASE("ops: every gradient agrees with finite differences") {
  on_each_device([] {
    const TestDevice& device = current_device();
    Arena arena(device.memory());
    for (const OpCase& c : op_cases(arena)) {
      CAPTURE(c.name);
      std::vector<Tensor> inputs;
      for (std::size_t i = 0; i < c.inputs.size(); ++i)
        inputs.push_back(randn(arena, c.inputs[i], DType::f64, 7 + i, 0.8, i == 0 ? 0.0 : 0.3));
      const GradCheckReport report = grad_check(device.backend, c.f, inputs, 11);
      CHECK_MESSAGE(report.max_error < 1e-6, report.worst);
    }
  });
}

TEST_CASE("grad_check: a wrong gradient is found") {
  Arena arena;
  const auto wrong = [](Tape& tape, const Vars& v) {
    Tensor y = tape.empty_like(v[0].value());
    tape.backend().tanh(v[0].value(), y);
    return tape.record("half", {v[0]}, y, [=](Backend& b, const Tensor& dy, Grads& d) { b.copy_gradient(dy, d[0]); });
  };
  CHECK(grad_check(cpu_backend(), wrong, {randn(arena, {4}, DType::f64, 1)}, 2).max_error > 0.01);
}

TEST_CASE("ops: wrong shapes are refused by operation and argument") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  const auto var = [&](const Shape& s) { return tape.input(randn(memory, s, DType::f32, 1)); };
  CHECK_THROWS_WITH_AS(layer_norm(var({3, 192}), var({64}), var({192}), 1e-6),
                       "layer_norm: gamma is [64], expected [192]", InputError);
  CHECK_THROWS_WITH_AS(linear(var({3, 5}), var({4, 6}), Var()), "linear: weight is [4, 6], expected [4, 5]",
                       InputError);
  CHECK_THROWS_WITH_AS(add(var({3, 5}), var({3, 6})), "add: b is [3, 6], expected [3, 5]", InputError);
  CHECK_THROWS_WITH_AS(token_attention(var({1, 2, 6}), var({1, 3, 12}), 2),
                       "token_attention: q is [1, 2, 6], expected [1, 1, 6]", InputError);
  CHECK_THROWS_WITH_AS(token_attention(var({1, 1, 6}), var({1, 3, 12}), 4),
                       "token_attention: 4 heads do not divide a width of 6", InputError);
  CHECK_THROWS_WITH_AS(attention(var({1, 2, 6}), var({1, 2, 6}), var({1, 2, 6}), 4),
                       "attention: 4 heads do not divide a width of 6", InputError);
  const Tensor keep = keep_of(arena, {3}, 0.0);
  CHECK_THROWS_WITH_AS(gather_images(var({2, 6}), keep), "gather_images: keep is [3], expected [2]", InputError);
  CHECK_THROWS_WITH_AS(scatter_add_images(var({2, 6}), keep, 0.1, var({3, 6})),
                       "scatter_add_images: x is [2, 6], expected [3, 6]", InputError);
  CHECK_THROWS_WITH_AS(attention(var({1, 2, 8}), 2), "attention: qkv is [1, 2, 8], expected [batch, tokens, 3 width]",
                       InputError);
  CHECK_THROWS_WITH_AS(cut_windows(var({2, 24, 3}), {4, 5, 2, 0}),
                       "cut_windows: x is [2, 24, 3], expected [batch, 4 * 5, width]", InputError);
  CHECK_THROWS_WITH_AS(join_windows(var({3, 4, 3}), {4, 4, 2, 0}),
                       "join_windows: x is [3, 4, 3], expected [batch * 4, 4, width]", InputError);
  CHECK_THROWS_WITH_AS(window_attention(var({4, 4, 12}), var({8, 2}), 2, {4, 4, 2, 0}),
                       "window_attention: table is [8, 2], expected [9, 2]", InputError);
  CHECK_THROWS_WITH_AS(merge_patches(var({1, 6, 3}), 2, 4),
                       "merge_patches: x is [1, 6, 3], expected [batch, 2 * 4, width]", InputError);
  CHECK_THROWS_WITH_AS(patchify(var({1, 6, 6, 3}), 4, 4),
                       "patchify: a patch of 4x4 does not divide images [1, 6, 6, 3]", InputError);
  CHECK_THROWS_WITH_AS(resample(var({2, 6, 3}), 4, 4, Resampling::bicubic),
                       "resample: x is [2, 6, 3], expected [batch, height, width, channels], none of them 0",
                       InputError);
  CHECK_THROWS_WITH_AS(resample(var({1, 6, 6, 3}), 0, 4, Resampling::bicubic),
                       "resample: the target grid is 0x4, which has no points", InputError);
  CHECK_THROWS_WITH_AS(scale(var({3, 6}), var({4})), "scale: gain is [4], expected one axis that divides 6",
                       InputError);
  CHECK_THROWS_WITH_AS(softmax_cross_entropy(var({3, 6}), {}),
                       "softmax_cross_entropy: expected either labels or soft targets", InputError);
  CHECK_THROWS_WITH_AS(pixel_softmax_cross_entropy(var({2, 3, 6}), labels_of(memory, {1, 2})),
                       "pixel_softmax_cross_entropy: labels is [2], expected [2, 3]", InputError);
  CHECK_THROWS_WITH_AS(pixel_softmax_cross_entropy(var({2, 6}), labels_of(memory, {1, 6})),
                       "pixel_softmax_cross_entropy: pixel 1 has label 6, but there are 6 classes, and 255 is ignored",
                       InputError);
}

namespace {

void step_in_bf16(const TestDevice& device) {
  Arena arena(device.memory()), memory(device.memory());
  Tape tape(device.backend.with_bf16(device.bf16), arena);
  const auto run = [&](DType dtype) {
    const Var x = tape.input(randn(memory, {2, 5, 16}, dtype, 1), true);
    const Var w = tape.input(randn(memory, {16, 16}, DType::f32, 2, 0.25), true),
              b = tape.input(randn(memory, {16}, DType::f32, 3), true);
    const Var gamma = tape.input(randn(memory, {16}, DType::f32, 4, 0.1, 1.0), true);
    const Var h = layer_norm(linear_gelu(x, w, b, GeluForm::erf), gamma, b, 1e-6);
    const Var y = mean_tokens(add(x, attention(h, h, h, 4)));
    Tensor seed = randn(memory, y.shape(), dtype, 9);
    tape.backward(y, seed);
    device.backend.synchronize();
    std::vector<double> all;
    for (std::int64_t i = 0; i < y.value().size(); ++i)
      all.push_back(dtype == DType::bf16 ? double(float(y.value().data<bf16>()[i]))
                                         : double(y.value().data<float>()[i]));
    for (std::int64_t i = 0; i < 256; ++i) all.push_back(double(w.grad().data<float>()[i]));
    return all;
  };
  const std::vector<double> wide = run(DType::f32), narrow = run(DType::bf16);
  double largest = 0.0, error = 0.0;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    largest = std::max(largest, std::abs(wide[i]));
    error = std::max(error, std::abs(wide[i] - narrow[i]));
  }
  CHECK(error < 0.04 * largest);
  CHECK(error > 0);  // it did round
}

}  // namespace

TEST_CASE("ops: a step in bf16 follows the one in float within its precision") {
  on_each_device([] { step_in_bf16(current_device()); });
}
