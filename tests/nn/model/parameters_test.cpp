#include "nn/model/parameters.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/backend.h"
#include "core/shards.h"
#include "nn/model/step.h"

using namespace normlab;

namespace {
double sum_of(const Tensor& t) {
  double total = 0;
  for (std::int64_t i = 0; i < t.size(); ++i) total += t.data<double>()[i];
  return total;
}

/// Three stacked parameters of 9 values between two others.
struct Stack {
  ParameterSet set;
  std::vector<int> ids;
  int after;
  Stack() {
    set.add("before", {5});
    ids = {set.add("q", {3, 3}), set.add("k", {3, 3}, {.stacked = true}), set.add("v", {3, 3}, {.stacked = true})};
    after = set.add("after", {2});
    set.allocate(DType::f64, 2);
  }
};

/// A lane of two shards, whose gradients hold other numbers at first.
struct Lane {
  ParameterSet set;
  const int used = set.add("used", {4}), unused = set.add("unused", {4});
  const std::vector<int> stack{set.add("s0", {1, 4}), set.add("s1", {1, 4}, {.stacked = true})};
  Lane() {
    set.allocate(DType::f64, 2);
    std::fill_n(set.flat_lane(0).data<double>(), set.flat_values().size(), 99.0);  // of a step before
    for (std::uint8_t& flag : set.written(0, used, 4)) flag = kWritten;
    std::fill_n(set.value(used).data<double>(), 4, 3.0);
  }
  void step(bool with_stack) {
    set.begin_lane(0);
    for (int shard = 0; shard < 2; ++shard) run_shard(with_stack);
    set.end_lane(0);
  }

 private:
  void run_shard(bool with_stack) {
    tape_.reset();
    const Step step{.parameters = set, .training = true};
    const Shard shard{.step = step, .tape = tape_, .lane = 0};
    Var y = scale(shard.parameter(used), shard.parameter(used));  // the same parameter twice
    if (with_stack)
      y = add(y, reshape(mean_tokens(reshape(shard.bias(stack.front(), int(stack.size())), {1, 2, 4})), {4}));
    Tensor seed = tape_.empty_like(y.value());
    std::fill_n(seed.data<double>(), seed.size(), 1.0);
    tape_.backward(y, seed);
  }
  Arena arena_;
  Tape tape_{cpu_backend(), arena_};
};

/// Weights in panels: stacks of whole panels and of others, and one narrower than a panel.
struct Panelled {
  static constexpr std::int64_t kIn = 800, kRows = 20;  // deeper than one block of a product
  Backend& backend = cpu_backend();
  const std::int64_t panel = backend.panel_rows(DType::f32);
  ParameterSet set;
  const std::vector<int> whole{add("q", 2 * panel, Role::q, false), add("k", 2 * panel, Role::k, true)},
      ragged{add("fc1", panel + 5, Role::fc1, false), add("fc2", panel + 5, Role::fc2, true)};
  const int narrow = add("head", panel - 1, Role::head, false);
  ShardPool pool{2};
  Panelled() {
    REQUIRE(panel > 0);
    set.allocate(DType::f32, 0, false, panel);
    const Tensor values = set.flat_values();
    for (std::int64_t i = 0; i < values.size(); ++i) values.data<float>()[i] = float(i * 37 % 101) / 50 - 1;
    set.refresh_copy(backend, pool);
    for (std::int64_t i = 0; i < x_.size(); ++i) x_.data<float>()[i] = float(i * 53 % 89) / 40 - 1;
  }
  std::vector<float> product(const Tensor& w) {
    const Tensor y = arena_.empty({kRows, w.shape()[0]}, DType::f32);
    backend.linear({kRows, kIn, w.shape()[0]}, x_, w, {}, {}, y);
    return {y.data<float>(), y.data<float>() + y.size()};
  }

 private:
  int add(const char* name, std::int64_t out, Role role, bool stacked) {
    return set.add(name, {out, kIn}, {.role = role, .decays = true, .stacked = stacked});
  }
  Arena arena_;
  const Tensor x_ = arena_.empty({kRows, kIn}, DType::f32);
};

}  // namespace

TEST_CASE("parameters: stacked parameters are read as one tensor") {
  Stack stack;
  for (int i = 0; i < 3; ++i) std::fill_n(stack.set.value(stack.ids[std::size_t(i)]).data<double>(), 9, double(i + 1));
  const Tensor all = stack.set.read(stack.ids.front(), int(stack.ids.size()));
  CHECK(all.shape() == Shape{9, 3});
  for (std::int64_t i = 0; i < 27; ++i) CHECK(all.data<double>()[i] == double(i / 9 + 1));
}

TEST_CASE("parameters: a stacked gradient is that of its parameters") {
  Stack stack;
  stack.set.gradient(1, stack.ids.front(), int(stack.ids.size())).data<double>()[26] = 7;
  CHECK(stack.set.gradient(1, stack.ids[2]).data<double>()[8] == 7);
}

TEST_CASE("parameters: after a stack the next parameter is aligned") {
  Stack stack;
  CHECK(stack.set.parameters()[std::size_t(stack.after)].offset % 16 == 0);
}

TEST_CASE("parameters: the gradients of a lane's shards add up") {
  Lane lane;
  for (int step = 0; step < 2; ++step) {
    lane.step(step == 1);
    CHECK(sum_of(lane.set.gradient(0, lane.used)) == 2 * 2 * 4 * 3.0);
  }
}

TEST_CASE("parameters: a stacked gradient of a lane's shards adds up") {
  Lane lane;
  lane.step(false);
  lane.step(true);
  CHECK(sum_of(lane.set.gradient(0, lane.stack.front(), int(lane.stack.size()))) == 2 * 4.0);
}

TEST_CASE("parameters: a gradient that no shard wrote is zero") {
  Lane lane;
  lane.step(false);
  CHECK(sum_of(lane.set.gradient(0, lane.unused)) == 0);
  CHECK(sum_of(lane.set.gradient(0, lane.stack.front(), int(lane.stack.size()))) == 0.0);
  lane.step(true);
  CHECK(sum_of(lane.set.gradient(0, lane.unused)) == 0);
}

TEST_CASE("parameters: in a lane without shards a gradient is zero") {
  Lane lane;
  lane.step(false);
  lane.step(true);
  lane.set.begin_lane(0);
  lane.set.end_lane(0);
  CHECK(sum_of(lane.set.gradient(0, lane.used)) == 0);
}

TEST_CASE("parameters: weights of whole panels have panels") {
  Panelled network;
  CHECK(network.set.weight(network.ragged[0]).panels<float>());
  const Tensor stacked = network.set.weight(network.whole.front(), int(network.whole.size()));
  CHECK(stacked.panels<float>());
  CHECK_FALSE(network.set.weight(network.narrow).panels<float>());
  CHECK_FALSE(network.set.weight(network.ragged.front(), int(network.ragged.size()))
                  .panels<float>());  // the second's do not follow the first's
  CHECK_FALSE(stacked.slice(1, 2).panels<float>());
}

TEST_CASE("parameters: a product from panels has the bits of one from the weight") {
  Panelled network;
  CHECK(network.product(network.set.weight(network.ragged[0])) == network.product(network.set.read(network.ragged[0])));
  CHECK(network.product(network.set.weight(network.whole.front(), int(network.whole.size()))) ==
        network.product(network.set.read(network.whole.front(), int(network.whole.size()))));
}

TEST_CASE("parameters: a refresh brings new values to the panels") {
  Panelled network;
  const Tensor stacked = network.set.weight(network.whole.front(), int(network.whole.size()));
  network.set.flat_values().data<float>()[0] += 1;
  CHECK(network.product(stacked) !=
        network.product(network.set.read(network.whole.front(), int(network.whole.size()))));
  network.set.refresh_copy(network.backend, network.pool);
  CHECK(network.product(stacked) ==
        network.product(network.set.read(network.whole.front(), int(network.whole.size()))));
}
