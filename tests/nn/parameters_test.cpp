#include "nn/parameters.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/backend.h"
#include "core/shards.h"
#include "nn/context.h"

using namespace normlab;

namespace {
double sum_of(const Tensor& t) {
  double total = 0;
  for (std::int64_t i = 0; i < t.size(); ++i) total += t.data<double>()[i];
  return total;
}
}  // namespace

TEST_CASE("parameters: stacked ones are one tensor, without a gap whatever their size") {
  ParameterSet set;
  set.add("before", {5});
  const std::vector<int> ids{set.add("q", {3, 3}), set.add("k", {3, 3}, {.stacked = true}),
                             set.add("v", {3, 3}, {.stacked = true})};
  const int after = set.add("after", {2});
  set.allocate(DType::f64, 2);
  for (int i = 0; i < 3; ++i) std::fill_n(set.value(ids[std::size_t(i)]).data<double>(), 9, double(i + 1));
  const Tensor all = set.stacked_read(ids);
  CHECK(all.shape() == Shape{9, 3});
  for (std::int64_t i = 0; i < 27; ++i) CHECK(all.data<double>()[i] == double(i / 9 + 1));
  set.stacked_gradient(1, ids).data<double>()[26] = 7;
  CHECK(set.gradient(1, ids[2]).data<double>()[8] == 7);
  CHECK(set.parameters()[std::size_t(after)].offset % 16 == 0);
}

TEST_CASE("parameters: the first shard of a lane assigns, the others add, what nobody wrote is zero") {
  ParameterSet set;
  const int used = set.add("used", {4}), unused = set.add("unused", {4});
  const std::vector<int> stack{set.add("s0", {1, 4}), set.add("s1", {1, 4}, {.stacked = true})};
  set.allocate(DType::f64, 2);
  std::fill_n(set.flat_lane(0).data<double>(), set.flat_size(), 99.0);  // of a step before
  for (std::uint8_t& flag : set.written(0, used, 4)) flag = kWritten;
  Arena arena;
  Tape tape(cpu_backend(), arena);
  const auto shard = [&](bool with_stack) {
    tape.reset();
    const Context ctx{tape, set, 0, true};
    Var y = scale(ctx.parameter(used), ctx.parameter(used));  // the same parameter twice
    if (with_stack) y = add(y, reshape(mean_tokens(reshape(ctx.stacked_bias(stack), {1, 2, 4})), {4}));
    Tensor seed = tape.empty_like(y.value());
    std::fill_n(seed.data<double>(), seed.size(), 1.0);
    tape.backward(y, seed);
  };
  std::fill_n(set.value(used).data<double>(), 4, 3.0);
  for (int step = 0; step < 2; ++step) {
    set.begin_step();
    shard(step == 1);
    shard(step == 1);
    set.end_step();
    CHECK(sum_of(set.gradient(0, used)) == 2 * 2 * 4 * 3.0);
    CHECK(sum_of(set.gradient(0, unused)) == 0);
    CHECK(sum_of(set.stacked_gradient(0, stack)) == (step == 1 ? 2 * 4.0 : 0.0));
  }
  set.begin_step();
  set.end_step();
  CHECK(sum_of(set.gradient(0, used)) == 0);
}

TEST_CASE("parameters: a product from a weight's panels has the bits of one from the weight, and sees each refresh") {
  Backend& backend = cpu_backend();
  const std::int64_t panel = backend.panel_rows(DType::f32), in = 800, rows = 20;  // deeper than one block of a product
  REQUIRE(panel > 0);
  ParameterSet set;
  const auto add = [&](const char* name, std::int64_t out, Role role, bool stacked) {
    return set.add(name, {out, in}, {.role = role, .decays = true, .stacked = stacked});
  };
  const std::vector<int> whole{add("q", 2 * panel, Role::q, false), add("k", 2 * panel, Role::k, true)},
      ragged{add("fc1", panel + 5, Role::fc1, false), add("fc2", panel + 5, Role::fc2, true)};
  const int narrow = add("head", panel - 1, Role::head, false);
  set.allocate(DType::f32, 0, false, panel);
  const Tensor values = set.flat_values();
  for (std::int64_t i = 0; i < values.size(); ++i) values.data<float>()[i] = float(i * 37 % 101) / 50 - 1;
  ShardPool pool(2);
  set.refresh_copy(backend, pool);

  Arena arena;
  Tape tape(backend, arena);
  const Tensor x = tape.empty({rows, in}, DType::f32);
  for (std::int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] = float(i * 53 % 89) / 40 - 1;
  const auto product = [&](const Tensor& w) {
    const Tensor y = tape.empty({rows, w.shape()[0]}, DType::f32);
    backend.linear({rows, in, w.shape()[0]}, x, w, {}, {}, y);
    return std::vector<float>(y.data<float>(), y.data<float>() + y.size());
  };
  const Tensor alone = set.weight(ragged[0]), stacked = set.stacked_weight(whole);
  CHECK(alone.panels<float>());
  CHECK(stacked.panels<float>());
  CHECK_FALSE(set.weight(narrow).panels<float>());
  CHECK_FALSE(set.stacked_weight(ragged).panels<float>());  // the second's do not follow the first's
  CHECK_FALSE(stacked.slice(1, 2).panels<float>());
  CHECK(product(alone) == product(set.read(ragged[0])));
  CHECK(product(stacked) == product(set.stacked_read(whole)));

  values.data<float>()[0] += 1;
  CHECK(product(stacked) != product(set.stacked_read(whole)));
  set.refresh_copy(backend, pool);
  CHECK(product(stacked) == product(set.stacked_read(whole)));
}
