#include "autograd/tape.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/ops.h"
#include "autograd/randn.h"
#include "tests/devices.h"

using namespace normlab;

namespace {

/// Gradients of 24 layers of three values of 256 kB each, whose activations are forgotten or kept.
struct ForgetfulTraining {
  ForgetfulTraining() {
    for (std::int64_t i = 0; i < w.size(); ++i) w.data<float>()[i] *= 0.2f;
  }
  std::vector<float> gradients(Arena& arena, bool forgetful) const {
    Tape tape(cpu_backend(), arena);
    const Var input = tape.input(x, true), weight = tape.input(w, true);
    Var h = input;
    for (int layer = 0; layer < 24; ++layer) {
      const Var argument = linear(h, weight, Var()), active = gelu(argument, GeluForm::erf);
      h = linear(active, weight, Var());
      if (!forgetful) continue;
      tape.forget(active);
      tape.forget(argument);  // a product is not recomputed
      CHECK_THROWS_WITH(active.value(), "tape: a value is read after it was freed");
      CHECK(bool(argument.value()));
    }
    tape.backward(h, seed);
    std::vector<float> all;
    for (const Tensor& g : {input.grad(), weight.grad()})
      all.insert(all.end(), g.data<float>(), g.data<float>() + g.size());
    return all;
  }
  Arena memory;
  const Tensor x = randn(memory, {1000, 64}, DType::f32, 1), w = randn(memory, {64, 64}, DType::f32, 2),
               seed = randn(memory, {1000, 64}, DType::f32, 3);
};

struct Step {
  std::vector<const void*> addresses;
  std::size_t reserved;
};
/// Three steps of a network on one tape: where its values lie, and the memory of the arena after each.
std::vector<Step> three_steps() {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  const Tensor x = randn(memory, {8, 64}, DType::f32, 1), w = randn(memory, {64, 64}, DType::f32, 2),
               seed = randn(memory, {8, 64}, DType::f32, 3);
  Tensor gradient = memory.empty({64, 64}, DType::f32);
  std::fill_n(gradient.data<float>(), gradient.size(), 0.0f);
  std::vector<Step> steps;
  for (int step = 0; step < 3; ++step) {
    tape.reset();
    std::vector<const void*> here;
    Var h = tape.input(x, true);
    const Var weight = tape.parameter(w, gradient);
    for (int layer = 0; layer < 6; ++layer) {
      h = add(h, linear_gelu(h, weight, Var(), GeluForm::erf));
      here.push_back(h.value().raw());
    }
    tape.backward(h, seed);
    here.push_back(tape.empty({1}, DType::f32).raw());
    steps.push_back({here, arena.reserved()});
  }
  return steps;
}

/// The gradients of the three biases of a block's attention branch that ends in a norm, of its input and of the norm's
/// parameters. A guard makes each closure compute the gradients of its own parameters alone.
std::vector<double> block_gradients(DType type, std::int64_t width, bool guarded) {
  Arena arena(current_device().memory()), memory(current_device().memory());
  Tape tape(current_device().backend.with_bf16(current_device().bf16), arena);
  if (guarded) tape.guard();
  const DType param = type == DType::bf16 ? DType::f32 : type;
  std::vector<std::vector<std::uint8_t>> written;
  written.reserve(16);
  std::vector<Tensor> gradients;
  const auto parameter = [&](const Shape& shape, std::uint64_t seed) {
    gradients.push_back(memory.empty(shape, param));
    written.push_back({0});
    return tape.parameter(randn(memory, shape, param, seed), gradients.back(), written.back());
  };
  const Var x = tape.input(randn(memory, {3, 20, width}, type, 1), true);
  const Var a = tape.input(randn(memory, {3, 20, width}, type, 2), true);
  const Var h = linear_add(a, parameter({width, width}, 3), parameter({width}, 4), x);
  const Var n = layer_norm(h, parameter({width}, 5), parameter({width}, 6), 1e-6);
  const Var y = attention(linear(n, parameter({3 * width, width}, 7), parameter({3 * width}, 8)), width > 512 ? 5 : 2);
  const Var z =
      rms_norm(linear_add(y, parameter({width, width}, 9), parameter({width}, 10), h), parameter({width}, 11), 1e-6);
  tape.backward(z, randn(memory, {3, 20, width}, type, 12));
  tape.backend().synchronize();
  std::vector<double> all;
  gradients.push_back(x.grad());
  for (const Tensor& g : gradients)
    for (std::int64_t i = 0; i < g.size(); ++i)
      all.push_back(g.dtype() == DType::bf16  ? double(float(g.data<bf16>()[i]))
                    : g.dtype() == DType::f32 ? double(g.data<float>()[i])
                                              : g.data<double>()[i]);
  return all;
}

}  // namespace

TEST_CASE("tape: gradients of biases are the same whoever sums them") {
  on_each_device([] {
    for (const DType type : {DType::f32, DType::f64, DType::bf16})
      for (const std::int64_t width : {48, 24, 1100}) {  // whole vectors, and rows that a GPU's norm reads again
        CAPTURE(to_string(type));
        CAPTURE(width);
        const std::vector<double> own = block_gradients(type, width, true);
        const std::vector<double> shared = block_gradients(type, width, false);
        REQUIRE(own.size() == shared.size());
        double apart = 0, largest = 0;
        for (std::size_t i = 0; i < own.size(); ++i) {
          apart = std::max(apart, std::abs(own[i] - shared[i]));
          largest = std::max(largest, std::abs(own[i]));
        }
        CHECK(apart <= (type == DType::f64 ? 1e-13 : 1e-6) * largest);
      }
  });
}

TEST_CASE("tape: the guard names the first value that is not finite in the forward pass") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  tape.guard();
  Tensor x = randn(memory, {2, 4}, DType::f32, 1);
  x.data<float>()[5] = INFINITY;
  tape.at("first");
  const Var fine = tape.input(randn(memory, {2, 4}, DType::f32, 2), true);
  const Var t = tanh(fine);
  tape.at("second");
  tanh(add(t, tape.input(x)));
  const NonFinite found = tape.nonfinite();
  REQUIRE(bool(found));
  CHECK(std::string(found.op) == "add");
  CHECK(std::string(found.site) == "second");
  CHECK(!found.in_backward);
  CHECK(found.value == INFINITY);
}

TEST_CASE("tape: the guard names the first value that is not finite in the backward pass") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  tape.guard();
  tape.at("gelu here");
  const Var y = gelu(tape.input(randn(memory, {3}, DType::f32, 2), true), GeluForm::erf);
  Tensor seed = randn(memory, {3}, DType::f32, 3);
  seed.data<float>()[1] = NAN;
  tape.backward(y, seed);
  const NonFinite found = tape.nonfinite();
  REQUIRE(bool(found));
  CHECK(found.in_backward);
  CHECK(std::isnan(found.value));
  CHECK(std::string(found.site) == "gelu here");
}

TEST_CASE("tape: after a reset the guard has found nothing") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  tape.guard();
  Tensor x = randn(memory, {3}, DType::f32, 1);
  x.data<float>()[1] = INFINITY;
  tanh(tape.input(x, true));
  gelu(tape.input(x, true), GeluForm::erf);
  REQUIRE(bool(tape.nonfinite()));
  tape.reset();
  tape.guard();
  tanh(tape.input(randn(memory, {3}, DType::f32, 2), true));
  CHECK(!tape.nonfinite());
}

TEST_CASE("tape: without a wanted gradient nothing is recorded") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  const Tensor x = randn(memory, {4}, DType::f32, 1);
  const Var y = tanh(tape.input(x));
  CHECK(!y.needs_grad());
  CHECK_THROWS_WITH_AS(tape.backward(y, x), "backward: the output depends on no value that needs a gradient",
                       InputError);
}

TEST_CASE("tape: nothing is recorded in an Unrecorded scope") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  const Tensor x = randn(memory, {4}, DType::f32, 1);
  {
    const Tape::Unrecorded values_alone(tape);
    const Tape::Unrecorded twice(tape);
    CHECK(!tanh(tape.input(x, true)).needs_grad());
  }
  CHECK(tanh(tape.input(x, true)).needs_grad());
}

TEST_CASE("tape: after an error in an Unrecorded scope the tape records") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  const Tensor x = randn(memory, {4}, DType::f32, 1);
  CHECK_THROWS_AS(([&] {
                    const Tape::Unrecorded values_alone(tape);
                    throw InputError("");
                  }()),
                  InputError);
  CHECK(tanh(tape.input(x, true)).needs_grad());
}

TEST_CASE("tape: the guard checks the gradient of a parameter before that of its input") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  for (const bool flagged : {false, true}) {
    tape.reset();
    tape.guard();
    Tensor x = randn(memory, {2, 4}, DType::f32, 1), w = randn(memory, {3, 4}, DType::f32, 2),
           gradient = memory.empty({3, 4}, DType::f32), seed = randn(memory, {2, 3}, DType::f32, 3);
    for (std::int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] = 1e30f;
    for (std::int64_t i = 0; i < w.size(); ++i) w.data<float>()[i] = 1e-30f;
    for (std::int64_t i = 0; i < seed.size(); ++i) seed.data<float>()[i] = 1e20f;  // dx is about 1e-10, dw 1e50
    std::fill_n(gradient.data<float>(), gradient.size(), flagged ? NAN : 0.0f);    // flagged: it holds nothing yet
    std::uint8_t written = 0;
    tape.at("before");
    const Var h = tanh(tape.input(randn(memory, {2, 4}, DType::f32, 4), true));
    tape.at("here");
    const Var y =
        linear(add(h, tape.input(x)),
               tape.parameter(w, gradient, flagged ? std::span(&written, 1) : std::span<std::uint8_t>()), Var());
    tape.backward(y, seed);
    const NonFinite found = tape.nonfinite();
    REQUIRE(bool(found));
    CHECK(found.words() == "the gradient of linear at here");
    CHECK(found.value == INFINITY);
  }
}

TEST_CASE("tape: a branch that the output does not use costs no gradient") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  const Var a = tape.input(randn(memory, {4}, DType::f32, 1), true),
            b = tape.input(randn(memory, {4}, DType::f32, 2), true);
  tanh(b);
  const Var y = tanh(a);
  tape.backward(y, randn(memory, {4}, DType::f32, 3));
  CHECK(bool(a.grad()));
  CHECK(!b.grad());
}

TEST_CASE("tape: forgotten values change no bit of a gradient") {
  const ForgetfulTraining training;
  Arena kept, forgotten;
  CHECK(training.gradients(kept, false) == training.gradients(forgotten, true));
}

TEST_CASE("tape: forgotten values free memory") {
  const ForgetfulTraining training;
  Arena kept, forgotten;
  training.gradients(kept, false);
  training.gradients(forgotten, true);
  CHECK(forgotten.reserved() < kept.reserved());
}

TEST_CASE("tape: a forgotten value cannot be read") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  const Var x = tape.input(randn(memory, {4, 4}, DType::f32, 1), true),
            active = gelu(linear(x, x, Var()), GeluForm::erf);
  linear(active, x, Var());
  tape.forget(active);
  CHECK_THROWS_WITH(active.value(), "tape: a value is read after it was freed");
}

TEST_CASE("tape: a value that is held or cannot be recomputed is not forgotten") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  const Var x = tape.input(randn(memory, {4, 4}, DType::f32, 1), true);
  const Var active = gelu(x, GeluForm::erf), both = tanh(active), product = linear(active, x, Var());
  add(active, product);
  for (const Var& v : {x, active, both, product}) {
    tape.forget(v);
    CHECK(bool(v.value()));
  }
}

TEST_CASE("tape: the third step uses the addresses of the second") {
  const std::vector<Step> steps = three_steps();
  CHECK(steps[1].addresses == steps[2].addresses);
}

TEST_CASE("tape: a step after the first takes no memory") {
  const std::vector<Step> steps = three_steps();
  CHECK(steps[0].reserved == steps[2].reserved);
}
