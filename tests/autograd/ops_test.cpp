// Every operation against finite differences in double, the CPU and its composed form; shape errors; a step in bf16.
#include "autograd/ops.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/randn.h"
#include "autograd/tape.h"
#include "tests/autograd/case_run.h"
#include "tests/autograd/grad_check.h"
#include "tests/autograd/op_cases.h"

using namespace normlab;

namespace {

Tensor keep_of(Arena& arena, const Shape& shape, double rate) {
  Tensor t = arena.empty(shape, DType::u8);
  const StreamKey key = stream_key(3, "test", "keep");
  for (std::int64_t i = 0; i < t.size(); ++i)
    t.data<std::uint8_t>()[i] = keep(draw(key, static_cast<std::uint64_t>(i))[0], drop_threshold(rate));
  return t;
}

}  // namespace

TEST_CASE("ops: every gradient agrees with finite differences") {
  on_each_device([] {
    const TestDevice& device = current_device();
    Arena arena(device.memory());
    for (const OpCase& row : op_cases(arena)) {
      CAPTURE(row.name);
      std::vector<Tensor> inputs;
      for (const auto* list : {&row.activations, &row.parameters})
        for (const OpInput& in : *list)
          inputs.push_back(randn(arena, in.shape, DType::f64, 7 + inputs.size(), in.std, in.mean));
      const GradCheckReport report = grad_check(
          device.backend, [&](Tape&, V v) { return row.build(v); }, inputs, 11);
      CHECK_MESSAGE(report.max_error < 1e-6, report.worst);
    }
  });
}

TEST_CASE("ops: values and gradients are the CPU's in every type") {
  on_each_device([] {
    const TestDevice &device = current_device(), &cpu = devices_under_test()[0];
    Arena memory(device.memory()), cpu_memory(cpu.memory());
    const std::vector<OpCase> here = op_cases(memory), there = op_cases(cpu_memory);
    for (const DType type : {DType::f64, DType::f32, DType::bf16})
      for (std::size_t i = 0; i < here.size(); ++i) {
        CAPTURE(here[i].name);
        CAPTURE(to_string(type));
        const CaseResults got = run_case(device, here[i], here[i].build, type),
                          expected = run_case(cpu, there[i], there[i].build, type);
        // A row of several operations rounds to bf16 between them, where a GPU rounds elsewhere.
        const double within = type == DType::f64 ? 1e-13 : type == DType::f32 ? 1e-5 : 0x1p-4;
        for (std::size_t k = 0; k < got.size(); ++k) {
          CAPTURE(k);  // 0: the result; else the gradient of input k - 1
          CHECK(difference(got[k], expected[k]) < within);
        }
      }
  });
}

TEST_CASE("ops: gradients of two uses of the inputs are added") {
  on_each_device([] {
    Arena memory(current_device().memory());
    for (const OpCase& row : op_cases(memory)) {
      CAPTURE(row.name);
      CaseResults once = run_case(current_device(), row, row.build, DType::f64);
      const CaseResults twice = run_case(
          current_device(), row, [&](V v) { return add(row.build(v), row.build(v)); }, DType::f64);
      for (std::size_t k = 0; k < once.size(); ++k) {
        for (double& number : once[k]) number *= 2;
        CAPTURE(k);
        CHECK(difference(twice[k], once[k]) < 1e-12);
      }
    }
  });
}

TEST_CASE("ops: a fused operation is the composed one, value and gradients") {
  on_each_device([] {
    Arena memory(current_device().memory());
    for (const OpCase& row : op_cases(memory)) {
      if (!row.unfused) continue;
      CAPTURE(row.name);
      const CaseResults fused = run_case(current_device(), row, row.build, DType::f64),
                        unfused = run_case(current_device(), row, row.unfused, DType::f64);
      REQUIRE(fused.size() == unfused.size());
      double worst = 0.0;
      for (std::size_t k = 0; k < fused.size(); ++k) {
        REQUIRE(fused[k].size() == unfused[k].size());
        for (std::size_t i = 0; i < fused[k].size(); ++i)
          worst = std::max(worst, std::abs(fused[k][i] - unfused[k][i]));
      }
      CHECK(worst < 1e-13);
      if (row.same_bits) CHECK(fused == unfused);
    }
  });
}

TEST_CASE("grad_check: a wrong gradient is found") {
  Arena arena;
  const auto wrong = [](Tape& tape, V v) {
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
  CHECK_THROWS_WITH_AS(pixel_softmax_cross_entropy(var({2, 3, 6}), labels_of(memory, {2}, {1, 2})),
                       "pixel_softmax_cross_entropy: labels is [2], expected [2, 3]", InputError);
  CHECK_THROWS_WITH_AS(pixel_softmax_cross_entropy(var({2, 6}), labels_of(memory, {2}, {1, 6})),
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
