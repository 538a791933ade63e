// Where float loses digits that the result needs: sums that cancel, and losses of logits far from zero.
#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "autograd/ops.h"
#include "autograd/randn.h"
#include "tests/devices.h"

namespace normlab {
namespace {

Tensor floats(Arena& arena, const Shape& shape, std::initializer_list<float> values) {
  const Tensor t = arena.empty(shape, DType::f32);
  std::copy(values.begin(), values.end(), t.data<float>());
  return t;
}

}  // namespace

TEST_CASE("linear: a bias gradient of thousands of rows that cancel keeps its digits") {
  on_each_device([] {
    Arena arena(current_device().memory());
    Tape tape(current_device().backend, arena);
    const std::int64_t rows = 4096;
    const Var x = tape.input(randn(arena, {rows, 2}, DType::f32, 1)),
              w = tape.input(randn(arena, {3, 2}, DType::f32, 2));
    const Var b = tape.input(floats(arena, {3}, {0, 0, 0}), true);
    Tensor dy = randn(arena, {rows, 3}, DType::f32, 3, 0.3, 1.0);
    std::array<double, 3> expected{};
    for (std::int64_t i = 0; i < dy.size(); ++i) {
      if (i >= dy.size() / 2) dy.data<float>()[i] *= -1;
      expected[static_cast<std::size_t>(i % 3)] += double(dy.data<float>()[i]);
    }
    tape.backward(linear(x, w, b), dy);
    current_device().backend.synchronize();
    for (std::size_t c = 0; c < 3; ++c) CHECK(std::abs(double(b.grad().data<float>()[c]) - expected[c]) < 5e-5);
  });
}

TEST_CASE("softmax_cross_entropy: logits far from zero cost no digits") {
  on_each_device([] {
    Arena arena(current_device().memory());
    Tape tape(current_device().backend, arena);
    const Var logits = tape.input(floats(arena, {1, 3}, {300.1f, 299.3f, 295.7f}), true);
    Tensor labels = arena.empty({1}, DType::i32);
    labels.data<std::int32_t>()[0] = 1;
    const Var loss = softmax_cross_entropy(logits, {labels, Tensor()});
    tape.backward(loss, floats(arena, {1}, {1}));
    current_device().backend.synchronize();
    std::array<double, 3> p{};
    double total = 0.0;
    for (std::size_t c = 0; c < 3; ++c) total += p[c] = std::exp(double(logits.value().data<float>()[c]) - 300.0);
    CHECK(double(loss.value().data<float>()[0]) == doctest::Approx(-std::log(p[1] / total)).epsilon(5e-7));
    for (std::size_t c = 0; c < 3; ++c)
      CHECK(double(logits.grad().data<float>()[c]) == doctest::Approx(p[c] / total - (c == 1)).epsilon(1e-6));
  });
}

}  // namespace normlab
