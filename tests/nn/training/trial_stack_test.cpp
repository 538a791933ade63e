// Networks of a stack on an emulated GPU: each has the bits that it has alone, whatever its neighbours do.
#include "core/trial_stack.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "core/backend.h"
#include "tests/cuda_emulation/emulated_devices.h"
#include "tests/cuda_emulation/lt_control.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/cuda_emulation/scheduler.h"
#include "tests/nn/training/formula_network.h"
#include "tests/nn/training/ranks_training.h"

using namespace normlab;

namespace {

Case small_case() {
  Case c;
  c.batch = c.settings.max_batch = 6;
  c.last = 3;
  c.equal_steps = 5;  // the first ones make memory, the later ones replay their graph
  return c;
}

/// The i-th of some that differ in what a stack leaves them: initial values, masks and lengths.
Case of_place(Case c, int i) {
  c.seed += static_cast<std::uint64_t>(i);
  c.settings.drop_seed += static_cast<std::uint64_t>(7 * i);
  return c;
}

using Bytes = std::vector<std::byte>;
Bytes alone(const Case& c) { return trained(c, *cuda_emulated::make_backend(0), group_of_one(), 1); }

std::vector<Bytes> stacked(const std::vector<Case>& all) {
  const auto stack = cuda_emulated::make_stack(static_cast<int>(all.size()));
  std::vector<Bytes> out(all.size());
  stack->run([&](int i) {
    const auto at = static_cast<std::size_t>(i);
    out[at] = trained(all[at], stack->backend(i), group_of_one(), 1);
  });
  return out;
}

/// Products that share a call, of each hundred of the products in recordings and outside.
double shared_products() {
  const emulation::LtControl& control = emulation::lt_control();
  return 100.0 * double(control.in_batches - control.products) / double(control.in_batches);
}

void check_stacks(const Case& c, std::initializer_list<int> sizes) {
  for (const int places : sizes) {
    CAPTURE(places);
    std::vector<Case> all;
    std::vector<Bytes> wanted;
    for (int i = 0; i < places; ++i) {
      all.push_back(of_place(c, i));
      wanted.push_back(alone(all.back()));
    }
    if (places > 1) CHECK(wanted[0] != wanted[1]);
    const ControlOfTest control;
    const long before = emulation::graphs_launched();
    const std::vector<Bytes> found = stacked(all);
    for (int i = 0; i < places; ++i) {
      CAPTURE(i);
      CHECK(found[static_cast<std::size_t>(i)] == wanted[static_cast<std::size_t>(i)]);
    }
    CHECK(emulation::graphs_launched() > before);
    CHECK(emulation::graphs_launched() - before <= static_cast<long>(c.equal_steps));  // not one for each network
    if (places > 1) CHECK(shared_products() > 10);
  }
}

}  // namespace

TEST_CASE("trial stack: layer norm, clipping, 1 and 4 networks") { check_stacks(small_case(), {1, 4}); }

TEST_CASE("trial stack: bf16, in parts of a batch, and with a GELU that products compute") {
  Case c = small_case();
  c.settings.precision = Precision::bf16;
  c.settings.accumulate = 2;
  check_stacks(c, {3});
  ViTConfig model = small_vit("pre_pre");
  model.gelu = GeluForm::tanh;
  c.model = model;
  check_stacks(c, {2});
}

TEST_CASE("trial stack: batch norm, which moves running statistics, and prep_bn") {
  Case c = small_case();
  c.model = small_vit("bn_ffnbn");
  check_stacks(c, {2});
  c.model = with_prep_bn();
  check_stacks(c, {2});
}

TEST_CASE("trial stack: Swin, drop-path, dropout and an average of the weights") {
  Case c = small_case();
  SwinConfig model = small_swin("pre_pre");
  model.drop_path = 0.5;
  model.dropout = 0.1;
  c.model = model;
  c.settings.ema.decay = 0.9;
  check_stacks(c, {2});
}

TEST_CASE("trial stack: norms and activations that are formulas, and heads") {
  for (const ViTConfig& model : {with_formulas(), with_gates(), with_heads(small_vit("pre_pre"), AttnGate::head)}) {
    Case c = small_case();
    c.model = model;
    check_stacks(c, {2});
  }
}

TEST_CASE("trial stack: optimisers with products and with sums over layers") {
  for (const OptimizerName name : {OptimizerName::muon, OptimizerName::lamb}) {
    CAPTURE(word_of(name));
    Case c = small_case();
    c.settings.optimizer.name = name;
    c.settings.optimizer.weight_decay = 0.1;
    check_stacks(c, {2});
  }
}

TEST_CASE("trial stack: networks that differ, end early, or follow others in their place") {
  const auto stack = cuda_emulated::make_stack(4);
  std::vector<std::vector<Case>> of_places(4);
  for (int i = 0; i < 4; ++i) of_places[static_cast<std::size_t>(i)].push_back(of_place(small_case(), i));
  of_places[1][0].equal_steps = 3;
  of_places[1].push_back(of_place(small_case(), 7));
  of_places[2][0].model = small_vit("post_post");
  of_places[3][0].batch = of_places[3][0].settings.max_batch = 4;
  stack->run([&](int i) {
    for (const Case& c : of_places[static_cast<std::size_t>(i)]) {
      const Bytes found = trained(c, stack->backend(i), group_of_one(), 1);
      CAPTURE(i);
      CHECK(found == alone(c));  // on another device, while the others wait
    }
  });
}

TEST_CASE("trial stack: without batches of cuBLASLt each product is a call") {
  const ControlOfTest control;
  emulation::lt_control().most_in_batch = 1;
  const std::vector<Case> all{small_case(), of_place(small_case(), 1)};
  const std::vector<Bytes> found = stacked(all);
  CHECK(emulation::lt_control().in_batches == emulation::lt_control().products);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(found[i] == alone(all[i]));
}

TEST_CASE("trial stack: where a batch of cuBLASLt has other bits, or is refused in the end, each product is a call") {
  for (const bool refuses : {false, true}) {
    const ControlOfTest control;
    (refuses ? emulation::lt_control().refuses_batches : emulation::lt_control().other_bits_in_batch) = true;
    const std::vector<Case> all{small_case(), of_place(small_case(), 1), of_place(small_case(), 2)};
    const std::vector<Bytes> found = stacked(all);
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(found[i] == alone(all[i]));
  }
}

TEST_CASE("trial stack: networks whose cuBLASLt chose other algorithms do not share products") {
  const ControlOfTest control;
  emulation::lt_control().algorithm = 7;
  const auto other = cuda_emulated::make_backend(0);
  trained(small_case(), *other, group_of_one(), 1);
  const std::string sevens = other->product_choices();
  emulation::lt_control() = {};
  const auto stack = cuda_emulated::make_stack(2);
  stack->run([&](int i) {
    if (i == 1) stack->backend(i).choose_products(sevens);
    trained(small_case(), stack->backend(i), group_of_one(), 1);
  });
  CHECK(stack->backend(1).product_choices() == sevens);
  CHECK(stack->backend(0).product_choices() != sevens);
  CHECK(emulation::lt_control().in_batches == emulation::lt_control().products);
}

TEST_CASE("trial stack: an error in a step is that network's alone") {
  const auto stack = cuda_emulated::make_stack(3);
  std::vector<int> done(3);
  CHECK_THROWS_WITH(stack->run([&](int i) {
    Backend& backend = stack->backend(i);
    Arena memory(backend.memory());
    const Tensor x = memory.empty({4}, DType::f32);
    for (std::uint64_t step = 1; step < 4; ++step) {
      backend.run_together({{x.raw()}, step}, [&] {
        if (i == 1 && step == 2) throw std::runtime_error("no more");
        backend.fill(x, double(step));
      });
      backend.synchronize();
      CHECK(x.data<float>()[3] == float(step));
      ++done[static_cast<std::size_t>(i)];
    }
  }),
                    "no more");
  CHECK(done == std::vector{3, 1, 3});
}

TEST_CASE("trial stack: a network that waits for something holds up no other") {
  const auto stack = cuda_emulated::make_stack(2);
  int steps = 0;
  stack->run([&](int i) {
    if (i == 1) return stack->wait([&] { return steps == 5; });
    Backend& backend = stack->backend(0);
    Arena memory(backend.memory());
    const Tensor x = memory.empty({4}, DType::f32);
    for (; steps < 5; ++steps) backend.run_together({{x.raw()}, 1}, [&] { backend.fill(x, 1); });
  });
  CHECK(steps == 5);
}

TEST_CASE("trial stack: each event is needed") {
  if (!emulation::checks_memory()) {
    MESSAGE("skipped: under a sanitizer, touches of memory are not checked");
    return;
  }
  const std::int64_t rows = 8, cols = 16;
  const auto run = [&](int left_out) {
    const auto stack = cuda_emulated::make_stack(2);
    bool right = true;
    stack->run([&](int i) {
      Backend& backend = stack->backend(i);
      Arena memory(backend.memory());
      const Tensor x = memory.empty({rows, cols}, DType::f32), w = memory.empty({cols, cols}, DType::f32),
                   y = memory.empty({rows, cols}, DType::f32), z = memory.empty({rows, cols}, DType::f32);
      backend.fill(w, 1);
      float read = 0;
      backend.read(w.slice(0, 1).reshape({cols}).slice(0, 1), &read);  // makes the room that later ones take
      backend.synchronize();
      const auto work = [&] {
        backend.copy_gradient(x, {z});
        backend.linear({rows, cols, cols}, z, w, {}, {}, y);
        backend.copy_gradient(y, {z});
      };
      backend.fill(x, 1);
      backend.run_together({{x.raw()}, 1}, work);  // compares products, and waits for that
      if (i == 0 && left_out >= 0) emulation::leave_out_events(left_out, 1 << 20);
      for (int step = 1; step < 4; ++step) {
        backend.fill(x, step + i);
        backend.run_together({{x.raw()}, 2}, work);
        backend.copy_gradient(z, {x});
        backend.read(x.slice(0, 1).reshape({cols}).slice(0, 1), &read);
        backend.synchronize();
        right &= read == float(cols) * float(step + i);
      }
    });
    return right;
  };
  CHECK(run(-1));
  int noticed = 0;
  constexpr int kCalls = 18 + 2 * 7;  // about events: with the first launch, and with each later one
  for (int left_out = 0; left_out < kCalls; ++left_out) {
    CAPTURE(left_out);
    bool seen = false;
    try {
      seen = !run(left_out);
    } catch (const std::exception&) {
      seen = true;
    }
    emulation::leave_out_events(0, 0);
    CHECK(seen);
    noticed += seen;
  }
  CHECK(noticed == kCalls);
}
