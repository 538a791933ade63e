// Operations on rows where float loses digits or overflows: constant, far from zero, far apart, NaN.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "autograd/ops.h"
#include "autograd/randn.h"
#include "tests/devices.h"

using namespace normlab;

namespace {

/// layer_norm of a constant row, a row with a mean of 1e4, and another.
std::vector<float> norm_of_rows() {
  const TestDevice& device = current_device();
  Arena arena(device.memory()), memory(device.memory());
  Tape tape(device.backend, arena);
  Tensor x = randn(memory, {3, 64}, DType::f32, 1);
  float* values = x.data<float>();
  for (int c = 0; c < 64; ++c) values[c] = 0.1f, values[64 + c] += 1e4f;
  const Var y = layer_norm(tape.input(x), Var(), Var(), 1e-6);
  device.backend.synchronize();
  return {y.value().data<float>(), y.value().data<float>() + y.value().size()};
}

/// A row of logits 1e4, -1e4 and 0.
struct FarLogits {
  FarLogits() { values.data<float>()[0] = 1e4f, values.data<float>()[1] = -1e4f, values.data<float>()[2] = 0.0f; }
  Var logits() { return tape.input(values, true); }
  Tensor label(std::int32_t value) {
    const Tensor t = memory.empty({1}, DType::i32);
    *t.data<std::int32_t>() = value;
    return t;
  }
  void synchronize() { current_device().backend.synchronize(); }
  Arena arena{current_device().memory()}, memory{current_device().memory()};
  Tape tape{current_device().backend, arena};
  const Tensor values = memory.empty({1, 3}, DType::f32);
};

}  // namespace

TEST_CASE("ops: layer_norm of a constant row is zero") {
  on_each_device([] {
    const std::vector<float> y = norm_of_rows();
    for (std::size_t c = 0; c < 64; ++c) CHECK(std::abs(y[c]) < 0.01f);
  });
}

TEST_CASE("ops: layer_norm of a row far from zero has variance 1") {
  on_each_device([] {
    const std::vector<float> y = norm_of_rows();
    double square = 0.0;
    for (std::size_t c = 64; c < 128; ++c) square += double(y[c]) * double(y[c]);
    CHECK(square == doctest::Approx(64.0).epsilon(1e-3));
  });
}

TEST_CASE("ops: losses of logits far apart do not overflow") {
  on_each_device([] {
    FarLogits at;
    const Tensor labels = at.label(1);
    const Var softmax_loss = softmax_cross_entropy(at.logits(), {labels, {}});
    const Var sigmoid_loss = sigmoid_cross_entropy(at.logits(), {labels, {}});
    at.synchronize();
    CHECK(softmax_loss.value().data<float>()[0] == doctest::Approx(2e4));
    CHECK(sigmoid_loss.value().data<float>()[0] == doctest::Approx(2e4).epsilon(1e-4));
  });
}

TEST_CASE("ops: NaN under an ignored pixel does not reach the loss or its gradient") {
  on_each_device([] {
    FarLogits at;
    at.values.data<float>()[1] = NAN;
    const Var ignored = at.logits(), pixel = pixel_softmax_cross_entropy(ignored, at.label(255));
    at.tape.backward(pixel, randn(at.memory, {1}, DType::f32, 2));
    at.synchronize();
    CHECK(pixel.value().data<float>()[0] == 0.0f);
    for (int c = 0; c < 3; ++c) CHECK(ignored.grad().data<float>()[c] == 0.0f);
  });
}
