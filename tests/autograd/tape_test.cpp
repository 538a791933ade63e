#include "autograd/tape.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/grad_check.h"
#include "autograd/ops.h"

using namespace normlab;

TEST_CASE("tape: the guard names op and site of the first value that is not finite, forward and backward") {
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
  NonFinite found = tape.nonfinite();
  REQUIRE(bool(found));
  CHECK(std::string(found.op) == "add");
  CHECK(std::string(found.site) == "second");
  CHECK(!found.in_backward);
  CHECK(found.value == INFINITY);

  tape.reset();
  tape.guard();
  tape.at("gelu here");
  const Var y = gelu(tape.input(randn(memory, {3}, DType::f32, 2), true), GeluForm::erf);
  Tensor seed = randn(memory, {3}, DType::f32, 3);
  seed.data<float>()[1] = NAN;
  tape.backward(y, seed);
  found = tape.nonfinite();
  REQUIRE(bool(found));
  CHECK(found.in_backward);
  CHECK(std::isnan(found.value));
  CHECK(std::string(found.site) == "gelu here");
}

TEST_CASE("tape: nothing is recorded where no gradient is wanted") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  const Tensor x = randn(memory, {4}, DType::f32, 1);
  const Var y = tanh(tape.input(x));
  CHECK(!y.needs_grad());
  CHECK_THROWS_AS(tape.backward(y, x), InputError);
  {
    const Tape::Unrecorded values_alone(tape);
    const Tape::Unrecorded twice(tape);
    CHECK(!tanh(tape.input(x, true)).needs_grad());
  }
  CHECK(tanh(tape.input(x, true)).needs_grad());
  CHECK_THROWS_AS(([&] {
                    const Tape::Unrecorded values_alone(tape);
                    throw InputError("");
                  }()),
                  InputError);
  CHECK(tanh(tape.input(x, true)).needs_grad());
}

TEST_CASE("tape: the guard finds a value that is not finite in the gradient of a parameter first") {
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

TEST_CASE("tape: a forgotten value frees its memory, and comes back for the backward pass bit for bit") {
  Arena memory;
  const Tensor x = randn(memory, {1000, 64}, DType::f32, 1), w = randn(memory, {64, 64}, DType::f32, 2),
               seed = randn(memory, {1000, 64}, DType::f32, 3);
  for (std::int64_t i = 0; i < w.size(); ++i) w.data<float>()[i] *= 0.2f;
  const auto gradients = [&](Arena& arena, bool forgetful, int layers) {
    Tape tape(cpu_backend(), arena);
    const Var input = tape.input(x, true), weight = tape.input(w, true);
    Var h = input;
    for (int layer = 0; layer < layers; ++layer) {
      const Var argument = linear(h, weight, Var()), active = gelu(argument, GeluForm::erf);
      h = linear(active, weight, Var());
      if (!forgetful) continue;
      tape.forget(active);
      tape.forget(argument);  // a product is not made again
      CHECK_THROWS_WITH(active.value(), "tape: a value is read after it was freed");
      CHECK(bool(argument.value()));
    }
    tape.backward(h, seed);
    std::vector<float> all;
    for (const Tensor& g : {input.grad(), weight.grad()})
      all.insert(all.end(), g.data<float>(), g.data<float>() + g.size());
    return all;
  };
  Arena kept, forgotten;
  constexpr int kLayers = 24;  // of three values of 256 kB each
  CHECK(gradients(kept, false, kLayers) == gradients(forgotten, true, kLayers));
  CHECK(forgotten.reserved() < kept.reserved());
}

TEST_CASE("tape: a value that an operation holds, or that has no way back, is not forgotten") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  const Var x = tape.input(randn(memory, {4, 4}, DType::f32, 1), true);
  const Var active = gelu(x, GeluForm::erf), both = tanh(active);
  add(active, linear(active, x, Var()));
  for (const Var& v : {x, active, both}) {
    tape.forget(v);
    CHECK(bool(v.value()));
  }
}

TEST_CASE("tape: steps two and three lie at the same addresses, and a step after the first takes no memory") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  const Tensor x = randn(memory, {8, 64}, DType::f32, 1), w = randn(memory, {64, 64}, DType::f32, 2),
               seed = randn(memory, {8, 64}, DType::f32, 3);
  Tensor gradient = memory.empty({64, 64}, DType::f32);
  std::fill_n(gradient.data<float>(), gradient.size(), 0.0f);
  std::vector<std::vector<const void*>> addresses;
  std::vector<std::size_t> reserved;
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
    addresses.push_back(here);
    reserved.push_back(arena.reserved());
  }
  CHECK(addresses[1] == addresses[2]);
  CHECK(reserved[0] == reserved[2]);
}
