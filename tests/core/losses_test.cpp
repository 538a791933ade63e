// The loss kernels on every device against the CPU's in double, with more classes than a warp or a vector has lanes.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "autograd/randn.h"
#include "core/arena.h"
#include "core/backend.h"
#include "core/for_type.h"
#include "tests/devices.h"

namespace normlab {
namespace {

constexpr std::int64_t kBatch = 37, kClasses = 71;
constexpr std::int32_t kIgnored = 255;

enum class Kind { softmax, sigmoid, pixels };
struct Case {
  const char* name;
  Kind kind;
  bool soft;
  double smoothing;
  Smoothing over = Smoothing::all;
};
constexpr Case kCases[] = {
    {"softmax", Kind::softmax, false, 0.0},      {"softmax, smoothed", Kind::softmax, false, 0.1},
    {"softmax, soft", Kind::softmax, true, 0.0}, {"sigmoid, smoothed", Kind::sigmoid, false, 0.1, Smoothing::others},
    {"sigmoid, soft", Kind::sigmoid, true, 0.0}, {"pixels", Kind::pixels, false, 0.0}};

LossDims dims_of(Kind kind, LossDims d) {
  d.sigmoid = kind == Kind::sigmoid;
  if (kind == Kind::pixels) d.ignored = kIgnored;
  return d;
}

/// Losses and gradients of the logits, these added to ones.
std::vector<double> run(const TestDevice& device, const Case& c, DType dtype) {
  Arena arena(device.memory());
  const Tensor wide_logits = randn(arena, {kBatch, kClasses}, DType::f64, 1, 3.0, 1.0);
  const Tensor wide_dlosses = randn(arena, {kBatch}, DType::f64, 2),
               wide_soft = randn(arena, {kBatch, kClasses}, DType::f64, 3);
  std::vector<double> results;
  for_type("losses", dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    // All types see numbers that bf16 holds, so that only the kernels differ.
    const auto cast = [&]<class U>(const Tensor& from, U) {
      const Tensor to = arena.empty(from.shape(), Storage<U>::dtype);
      for (std::int64_t i = 0; i < to.size(); ++i) to.data<U>()[i] = U(float(bf16(from.data<double>()[i])));
      return to;
    };
    const Tensor logits = cast(wide_logits, T()), dlosses = cast(wide_dlosses, A());
    const Tensor soft = c.soft ? cast(wide_soft, A()) : Tensor();
    const Tensor labels = c.soft ? Tensor() : arena.empty({kBatch}, DType::i32);
    if (!c.soft)
      for (std::int64_t b = 0; b < kBatch; ++b)
        labels.data<std::int32_t>()[b] =
            c.kind == Kind::pixels && b % 3 == 1 ? kIgnored : static_cast<std::int32_t>(b * 11 % kClasses);
    const Tensor losses = arena.empty({kBatch}, Storage<A>::dtype), dlogits = arena.empty({kBatch, kClasses}, dtype);
    std::fill_n(dlogits.data<T>(), dlogits.size(), T(1.0f));
    const LossDims d = dims_of(c.kind, {kBatch, kClasses, c.smoothing, c.over});
    Backend& b = device.backend;
    b.cross_entropy(d, logits, labels, soft, losses);
    b.cross_entropy_backward(d, dlosses, logits, labels, soft, {dlogits, Write::add});
    b.synchronize();
    for (std::int64_t i = 0; i < losses.size(); ++i) results.push_back(double(losses.data<A>()[i]));
    for (std::int64_t i = 0; i < dlogits.size(); ++i) results.push_back(double(A(dlogits.data<T>()[i])));
  });
  return results;
}

/// The loss of two rows of 6 logits, of which the second has a label that is no class.
struct BadLabel {
  BadLabel(Kind of, std::int32_t label) : kind(of), backend(current_device().backend) {
    labels.data<std::int32_t>()[0] = 1, labels.data<std::int32_t>()[1] = label;
  }
  void forward() { backend.cross_entropy(d, logits, labels, Tensor(), losses); }
  void backward() { backend.cross_entropy_backward(d, dlosses, logits, labels, Tensor(), {dlogits, Write::assign}); }
  const Kind kind;
  Backend& backend;
  const LossDims d = dims_of(kind, {.batch = 2, .classes = 6});
  Arena arena{backend.memory()};
  const Tensor logits = randn(arena, {2, 6}, DType::f32, 1), dlosses = randn(arena, {2}, DType::f32, 2);
  const Tensor labels = arena.empty({2}, DType::i32);
  const Tensor losses = arena.empty({2}, DType::f32), dlogits = arena.empty({2, 6}, DType::f32);
};

void for_labels_without_class(const std::function<void(BadLabel&, std::int32_t)>& check) {
  for (const std::int32_t label : {6, -1, 1 << 20, kIgnored})
    for (const Kind kind : {Kind::softmax, Kind::sigmoid, Kind::pixels}) {
      if (kind == Kind::pixels && label == kIgnored) continue;
      CAPTURE(label);
      CAPTURE(static_cast<int>(kind));
      BadLabel at(kind, label);
      check(at, label);
    }
}

}  // namespace

TEST_CASE("losses: every type follows the CPU's double to its precision") {
  for (const Case& c : kCases) {
    CAPTURE(std::string(c.name));
    const std::vector<double> exact = run(devices_under_test()[0], c, DType::f64);
    on_each_device([&] {
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
        CAPTURE(to_string(dtype));
        const std::vector<double> got = run(current_device(), c, dtype);
        const double in_acc = dtype == DType::f64 ? 1e-13 : 5e-6, in_type = dtype == DType::bf16 ? 1.0 / 256 : in_acc;
        double of_losses = 0.0, of_gradients = 0.0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          double& most = i < kBatch ? of_losses : of_gradients;
          most = std::max(most, std::abs(got[i] - exact[i]) / (1 + std::abs(exact[i])));
        }
        CHECK(of_losses < in_acc);
        CHECK(of_gradients < in_type);
      }
    });
  }
}

TEST_CASE("losses: a label that is no class is an error where kernels can throw") {
  on_each_device([] {
    if (current_device().backend.whole_batch()) return;
    for_labels_without_class([](BadLabel& at, std::int32_t label) {
      const std::string what = concat("1 has label ", label, ", but there are 6 classes");
      CHECK_THROWS_WITH_AS(at.forward(), doctest::Contains(what.c_str()), InputError);
      CHECK_THROWS_WITH_AS(at.backward(), doctest::Contains(what.c_str()), InputError);
    });
  });
}

TEST_CASE("losses: a label that is no class gives NaN where kernels cannot throw") {
  on_each_device([] {
    if (!current_device().backend.whole_batch()) return;
    for_labels_without_class([](BadLabel& at, std::int32_t) {
      at.forward();
      at.backward();
      at.backend.synchronize();
      CHECK(std::isfinite(at.losses.data<float>()[0]));
      CHECK(std::isnan(at.losses.data<float>()[1]));
      for (std::int64_t c = 0; c < 6; ++c) {
        CHECK(std::isfinite(at.dlogits.data<float>()[c]));
        CHECK(std::isnan(at.dlogits.data<float>()[6 + c]));
      }
    });
  });
}

}  // namespace normlab
