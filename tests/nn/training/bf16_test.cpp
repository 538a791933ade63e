// bf16 mixed precision in whole steps: the rounded copy of the weights, primitives made before a step, emulation.
#include <cmath>
#include <cstring>
#include <vector>

#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {

constexpr std::int64_t kBatch = 13;

ViTConfig model(const char* placement = "pre_pre") {
  ViTConfig c = small_vit(placement);
  c.mlp_dim = 88;
  c.init = Init::torch;  // a head that is not zero
  return c;
}

struct Run {
  ShardPool pool;
  Engine engine;
  const Batch data;
  static EngineSettings settings(Bf16Products how, OptimizerName name) {
    EngineSettings s;
    s.precision = precision_of(DType::bf16, how);
    s.max_batch = kBatch;
    s.images_per_shard = 4;  // and a last shard of one
    s.optimizer.name = name;
    return s;
  }
  explicit Run(Bf16Products how, const ViTConfig& c = model(), OptimizerName name = OptimizerName::adamw)
      : pool(2), engine(cpu_backend(), pool, c, settings(how, name)), data(c, kBatch, DType::bf16) {
    initialise(engine.parameters(), c, 3);
    engine.state().lr = 2e-3;
  }
  int head() { return engine.parameters().find("head.weight"); }
  Tensor write_head() {
    const Tensor value = engine.parameters().value(head());
    for (std::int64_t i = 0; i < value.size(); ++i) value.data<float>()[i] = 100.0f;
    return value;
  }
  double step() { return engine.train_step(data.images, data.labels); }
  void check_copy() {
    ParameterSet& p = engine.parameters();
    for (int i = 0; i < int(p.parameters().size()); ++i) {
      const Tensor master = p.read(i), copy = p.weight(i);
      REQUIRE(copy.dtype() == DType::bf16);
      for (std::int64_t j = 0; j < master.size(); ++j)
        REQUIRE(copy.data<bf16>()[j].bits == bf16(master.data<float>()[j]).bits);
    }
  }
};

constexpr const char* kOutdated = "parameter head.weight: its bf16 copy may be outdated; call refresh_copy() first";

}  // namespace

TEST_CASE("bf16: after each step the copy is the rounded weights") {
  for (const OptimizerName name : {OptimizerName::adamw, OptimizerName::sgd}) {
    Run run(best_bf16(), model(), name);
    double first = run.step(), last = 0;
    for (int s = 0; s < 8; ++s) {
      last = run.step();
      run.check_copy();
    }
    CHECK(last < first);
  }
}

TEST_CASE("bf16: before the first step the copy cannot be read") {
  Run run(best_bf16());
  CHECK_THROWS_WITH_AS(run.engine.parameters().weight(run.head()), kOutdated, InputError);
}

TEST_CASE("bf16: after a write to a value its old copy cannot be read") {
  Run run(best_bf16());
  run.step();
  run.write_head();
  CHECK_THROWS_WITH_AS(run.engine.parameters().weight(run.head()), kOutdated, InputError);
}

TEST_CASE("bf16: a value written from outside reaches the next step") {
  Run run(best_bf16());
  run.step();
  const Tensor value = run.write_head();
  run.engine.prepare(kBatch);
  for (std::int64_t i = 0; i < value.size(); ++i)
    CHECK(float(run.engine.parameters().weight(run.head()).data<bf16>()[i]) == 100.0f);
  run.step();
  run.check_copy();
}

TEST_CASE("bf16: once a step is prepared, values cannot be written") {
  Run run(best_bf16());
  run.step();
  const Tensor value = run.write_head();
  run.engine.prepare(kBatch);
  CHECK_THROWS_WITH_AS(value.data<float>(), doctest::Contains("is stale"), InputError);
}

TEST_CASE("bf16: every primitive is made before the first step") {
  SKIP_WITHOUT_NATIVE_BF16();
  std::int64_t width = 36;
  for (const char* placement : {"pre_pre", "bn_ffnbn", "dpn", "normformer_full"}) {
    CAPTURE(placement);
    ViTConfig c = model(placement);
    c.pool = width % 24 == 0 ? Pool::token : Pool::gap;
    c.drop_path = 0.5;
    c.rep_size = 40;
    c.embed_dim = width += 12;  // sizes that nothing else in this process has made primitives for
    c.mlp_dim = 3 * width + 5;
    Run run(Bf16Products::native, c);
    run.engine.prepare(kBatch);
    const std::int64_t made = bf16_primitives_made();
    for (int s = 0; s < 8; ++s) run.step();
    CHECK(bf16_primitives_made() == made);
    std::vector<double> losses(kBatch);
    std::vector<std::int32_t> predictions(kBatch);
    REQUIRE(!run.engine.evaluate(run.data.images, run.data.labels, losses, predictions));
    CHECK(bf16_primitives_made() == made);
  }
}

TEST_CASE("bf16: emulated products train as native ones do") {
  SKIP_WITHOUT_NATIVE_BF16();
  Run native(Bf16Products::native), emulated(Bf16Products::emulated);
  for (int s = 0; s < 5; ++s) {
    const double a = native.step(), b = emulated.step();
    CHECK(std::abs(a - b) < 0.01 * a);  // the same roundings but for neighbours, which training carries on
  }
}

TEST_CASE("bf16: values and moments are all that a resumed run needs") {
  Run whole(best_bf16()), first(best_bf16()), second(best_bf16());
  for (int s = 0; s < 4; ++s) whole.step();
  for (int s = 0; s < 2; ++s) first.step();
  const auto copy = [](const Tensor& from, const Tensor& to) { std::memcpy(to.raw(), from.raw(), from.bytes()); };
  copy(first.engine.parameters().flat_values(), second.engine.parameters().flat_values());
  for (std::size_t m = 0; m < 2; ++m)
    copy(first.engine.optimizer().moments()[m].flat, second.engine.optimizer().moments()[m].flat);
  second.engine.state().step = first.engine.state().step;
  for (int s = 0; s < 2; ++s) second.step();
  const Tensor a = whole.engine.parameters().flat_values(), b = second.engine.parameters().flat_values();
  CHECK(std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}
