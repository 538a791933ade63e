// Each fused operation against its composed form, values and gradients, in double.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/grad_check.h"
#include "autograd/ops.h"
#include "tests/devices.h"

using namespace normlab;

namespace {

using Vars = std::vector<Var>;
using Build = std::function<Var(const Vars&)>;

/// Largest difference of values and input gradients between two ways to compute the same.
double difference(const Build& a, const Build& b, const std::vector<Shape>& shapes) {
  Arena memory(current_device().memory());
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < shapes.size(); ++i) inputs.push_back(randn(memory, shapes[i], DType::f64, 20 + i));
  std::vector<std::vector<double>> results;
  for (const Build& build : {a, b}) {
    Arena arena(current_device().memory());
    Tape tape(current_device().backend, arena);
    Vars leaves;
    for (const Tensor& t : inputs) leaves.push_back(tape.input(t, true));
    const Var y = build(leaves);
    tape.backward(y, randn(memory, y.shape(), DType::f64, 99));
    current_device().backend.synchronize();
    std::vector<double> all(y.value().data<double>(), y.value().data<double>() + y.value().size());
    for (const Var& leaf : leaves)
      all.insert(all.end(), leaf.grad().data<double>(), leaf.grad().data<double>() + leaf.value().size());
    results.push_back(all);
  }
  REQUIRE(results[0].size() == results[1].size());
  double worst = 0.0;
  for (std::size_t i = 0; i < results[0].size(); ++i) worst = std::max(worst, std::abs(results[0][i] - results[1][i]));
  return worst;
}

void check_same(const Build& a, const Build& b, const std::vector<Shape>& shapes) {
  const double apart = difference(a, b, shapes);  // outside of CHECK, which would keep what it throws
  CHECK(apart < 1e-13);
}

/// A mask that drops every third value.
Tensor two_of_three(Arena& memory, const Shape& shape) {
  const Tensor keep = memory.empty(shape, DType::u8);
  for (std::int64_t i = 0; i < keep.size(); ++i) keep.data<std::uint8_t>()[i] = i % 3 != 1;
  return keep;
}

Var first_token(const Var& x) { return reshape(select_tokens(x, 0, 1), {x.shape()[0], 1, x.shape()[2]}); }

}  // namespace

TEST_CASE("fused: linear_gelu is gelu of linear") {
  on_each_device([] {
    for (const GeluForm form : {GeluForm::erf, GeluForm::tanh})
      check_same([=](const Vars& v) { return linear_gelu(v[0], v[1], v[2], form); },
                 [=](const Vars& v) { return gelu(linear(v[0], v[1], v[2]), form); }, {{2, 5, 7}, {11, 7}, {11}});
  });
}

TEST_CASE("fused: a dense layer after an Activation is that layer after linear_gelu") {
  on_each_device([] {
    for (const GeluForm form : {GeluForm::erf, GeluForm::tanh})
      check_same([=](const Vars& v) { return linear(Activation(v[0], v[1], v[2], form), v[3], v[4]); },
                 [=](const Vars& v) { return linear(linear_gelu(v[0], v[1], v[2], form), v[3], v[4]); },
                 {{2, 5, 7}, {11, 7}, {11}, {6, 11}, {6}});
  });
}

TEST_CASE("fused: two dense layers after an Activation are those after linear_gelu") {
  on_each_device([] {
    for (const GeluForm form : {GeluForm::erf, GeluForm::tanh})
      check_same(
          [=](const Vars& v) {
            const Activation h(v[0], v[1], v[2], form);
            return linear_add(h, v[3], Var(), linear_add(h, v[3], v[4], v[5]));
          },
          [=](const Vars& v) {
            const Var h = linear_gelu(v[0], v[1], v[2], form);
            return linear_add(h, v[3], Var(), linear_add(h, v[3], v[4], v[5]));
          },
          {{2, 5, 7}, {11, 7}, {11}, {6, 11}, {6}, {2, 5, 6}});
  });
}

TEST_CASE("fused: linear_add is add of linear") {
  on_each_device([] {
    check_same([](const Vars& v) { return linear_add(v[0], v[1], v[2], v[3]); },
               [](const Vars& v) { return add(v[3], linear(v[0], v[1], v[2])); },
               {{2, 5, 7}, {35, 7}, {35}, {2, 5, 35}});
  });
}

TEST_CASE("fused: linear_add to its own input is add of linear") {
  on_each_device([] {
    check_same([](const Vars& v) { return linear_add(v[0], v[1], Var(), v[0]); },
               [](const Vars& v) { return add(v[0], linear(v[0], v[1], Var())); }, {{2, 5, 7}, {7, 7}});
  });
}

TEST_CASE("fused: scatter_add_images of gathered images is dropout_add") {
  on_each_device([] {
    Arena memory(current_device().memory());
    const Tensor keep = memory.empty({5}, DType::u8);
    for (const unsigned kept : {0b11001u, 0b00110u, 0b11111u}) {
      for (unsigned i = 0; i < 5; ++i) keep.data<std::uint8_t>()[i] = kept >> i & 1;
      check_same([=](const Vars& v) { return scatter_add_images(tanh(gather_images(v[0], keep)), keep, 0.3, v[1]); },
                 [=](const Vars& v) { return dropout_add(tanh(v[0]), keep, 0.3, v[1]); }, {{5, 4, 3}, {5, 4, 3}});
      check_same([=](const Vars& v) { return scatter_add_images(tanh(gather_images(v[0], keep)), keep, 0.3, v[0]); },
                 [=](const Vars& v) { return dropout_add(tanh(v[0]), keep, 0.3, v[0]); }, {{5, 4, 3}});
    }
  });
}

TEST_CASE("fused: dropout_add of elements is add of dropout") {
  on_each_device([] {
    Arena memory(current_device().memory());
    const Tensor keep = two_of_three(memory, {3, 4, 5});
    check_same([=](const Vars& v) { return dropout_add(v[0], keep, 0.3, v[1]); },
               [=](const Vars& v) { return add(v[1], dropout(v[0], keep, 0.3)); }, {{3, 4, 5}, {3, 4, 5}});
  });
}

TEST_CASE("fused: dropout_add of whole images is add of drop_path") {
  on_each_device([] {
    Arena memory(current_device().memory());
    const Tensor keep = two_of_three(memory, {3});
    check_same([=](const Vars& v) { return dropout_add(v[0], keep, 0.3, v[1]); },
               [=](const Vars& v) { return add(v[1], drop_path(v[0], keep, 0.3)); }, {{3, 4, 5}, {3, 4, 5}});
  });
}

TEST_CASE("fused: attention of one head is softmax(q k^T / sqrt(d)) v") {
  on_each_device([] {
    // One head of one image: linear(q, k) is q k^T; v^T comes from a linear with the identity.
    const auto composed = [](const Vars& v) {
      Tape& tape = v[0].tape();
      const std::int64_t n = v[0].shape()[1], d = v[0].shape()[2];
      Tensor scale_by = tape.empty({1}, DType::f64);
      scale_by.data<double>()[0] = 1 / std::sqrt(double(d));
      Tensor identity = tape.empty({d, d}, DType::f64);
      for (std::int64_t i = 0; i < d * d; ++i) identity.data<double>()[i] = i % (d + 1) == 0;
      const Var k = reshape(v[1], {n, d}), values = reshape(v[2], {n, d});
      const Var weights = softmax(scale(linear(reshape(v[0], {n, d}), k, Var()), tape.input(scale_by)));
      const Var transposed = linear(tape.input(identity), values, Var());  // [d, n]
      return reshape(linear(weights, transposed, Var()), {1, n, d});
    };
    check_same([](const Vars& v) { return attention(v[0], v[1], v[2], 1); }, composed,
               {{1, 6, 5}, {1, 6, 5}, {1, 6, 5}});
  });
}

TEST_CASE("fused: attention of one token is its row in the attention of all") {
  on_each_device([] {
    check_same([](const Vars& v) { return token_attention(first_token(v[0]), v[1], v[2], 3); },
               [](const Vars& v) { return first_token(attention(v[0], v[1], v[2], 3)); },
               {{2, 5, 6}, {2, 5, 6}, {2, 5, 6}});
  });
}

TEST_CASE("fused: attention of one token with k and v side by side is the same") {
  on_each_device([] {
    // More tokens than a block of the GPU has threads.
    check_same([](const Vars& v) { return token_attention(first_token(v[0]), linear(v[0], v[1], Var()), 2); },
               [](const Vars& v) {
                 const auto half = [&](int which) {
                   return linear(v[0], reshape(select_tokens(reshape(v[1], {1, 8, 4}), which * 4, 4), {4, 4}), Var());
                 };
                 return first_token(attention(v[0], half(0), half(1), 2));
               },
               {{2, 150, 4}, {8, 4}});
  });
}

TEST_CASE("fused: attention of a packed q, k and v is that of three tensors") {
  on_each_device([] {
    Arena memory(current_device().memory());
    const auto layer = [](const Vars& v, int which) {  // rows which * 6 .. of the stacked weights and bias
      const Var weight = select_tokens(reshape(v[1], {1, 18, 6}), which * 6, 6);
      const Var bias = select_tokens(reshape(v[2], {1, 18, 1}), which * 6, 6);
      return linear(v[0], reshape(weight, {6, 6}), reshape(bias, {6}));
    };
    const std::vector<Shape> shapes{{2, 5, 6}, {18, 6}, {18}};
    for (const double rate : {0.0, 0.25}) {
      const Tensor kept = memory.empty({2, 3, 5, 5}, DType::u8), keep = rate > 0 ? kept : Tensor();
      for (std::int64_t i = 0; i < kept.size(); ++i) kept.data<std::uint8_t>()[i] = i % 4 != 1;
      check_same([=](const Vars& v) { return attention(linear(v[0], v[1], v[2]), 3, keep, rate); },
                 [=](const Vars& v) { return attention(layer(v, 0), layer(v, 1), layer(v, 2), 3, keep, rate); },
                 shapes);
    }
  });
}

TEST_CASE("fused: layer_norm is affine of the norm without parameters") {
  on_each_device([] {
    check_same([](const Vars& v) { return layer_norm(v[0], v[1], v[2], 1e-6); },
               [](const Vars& v) { return affine(layer_norm(v[0], Var(), Var(), 1e-6), v[1], v[2]); },
               {{4, 9}, {9}, {9}});
  });
}

TEST_CASE("fused: dyt is affine of tanh of scale") {
  on_each_device([] {
    check_same([](const Vars& v) { return pointwise_norm(PointwisePhi::tanh, v[0], v[1], Var(), v[2], v[3]); },
               [](const Vars& v) { return affine(tanh(scale(v[0], v[1])), v[2], v[3]); }, {{4, 9}, {1}, {9}, {9}});
  });
}

TEST_CASE("fused: bhyt is tanh of rms_norm") {
  on_each_device([] {
    const auto composed = [](const Vars& v) {
      const Tensor one = v[0].tape().empty({9}, DType::f64), half = v[0].tape().empty({1}, DType::f64);
      v[0].tape().backend().fill(one, 1.0);
      v[0].tape().backend().fill(half, 0.5);
      const Var normed = rms_norm(v[0], v[0].tape().input(one), 1e-6);
      return scale(tanh(scale(scale(normed, v[1]), v[0].tape().input(half))), v[2]);
    };
    check_same([](const Vars& v) { return bhyt(v[0], v[1], v[2], 2.0, 1e-6); }, composed, {{4, 9}, {1}, {9}});
  });
}
