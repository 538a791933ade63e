// Whole optimisation steps: equal bits for any number of threads, shards against the whole batch, memory, errors.
#include "nn/training/engine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/memory_error.h"
#include "core/random.h"
#include "nn/model/init.h"
#include "nn/model/norm_formula.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/devices.h"
#include "tests/nn/training/small_training.h"

using namespace normlab;

namespace {

struct Outcome {
  std::vector<double> losses;
  std::vector<std::byte> bytes;  // parameters, then buffers
  /// The bytes of a training in f64 as numbers, to compare up to rounding.
  std::vector<double> values() const {
    std::vector<double> out(bytes.size() / sizeof(double));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
};

Outcome train(const ModelConfig& c, int threads, int steps, std::int64_t images_per_shard, DType dtype = DType::f32,
              std::int64_t batch = 13, Bf16Products bf16_products = best_bf16()) {
  EngineSettings settings;
  settings.precision = precision_of(dtype, bf16_products);
  settings.max_batch = batch;
  settings.images_per_shard = images_per_shard;
  SmallTraining training(c, settings, threads);
  auto& [pool, engine, data] = training;
  random_head(engine);
  engine.state().lr = 1e-3;
  engine.state().clip_norm = 1.0;
  Outcome outcome;
  for (int s = 0; s < steps; ++s) outcome.losses.push_back(engine.train_step(data.images, data.labels));
  const auto append = [&](const Tensor& t) {
    const auto* p = static_cast<const std::byte*>(t.raw());
    outcome.bytes.insert(outcome.bytes.end(), p, p + t.bytes());
  };
  append(engine.parameters().flat_values());
  for (std::size_t b = 0; b < engine.parameters().buffers().size(); ++b)
    append(engine.parameters().buffer(static_cast<int>(b)));
  return outcome;
}

void check_equal(const Outcome& a, const Outcome& b) {
  CHECK(a.losses == b.losses);
  CHECK(a.bytes == b.bytes);
}

/// Trains with one thread and with each of `threads`: all outcomes are equal. Returns that of one thread.
Outcome check_threads(const ModelConfig& c, int steps, std::initializer_list<int> threads) {
  const Outcome one = train(c, 1, steps, 2);
  CHECK(std::isfinite(one.losses.back()));
  for (const int count : threads) {
    CAPTURE(count);
    check_equal(train(c, count, steps, 2), one);
  }
  return one;
}

/// Losses, parameters and running statistics of two trainings in f64 differ by rounding only.
void check_close(const Outcome& a, const Outcome& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) CHECK(std::abs(a.losses[i] - b.losses[i]) < 1e-9);
  const std::vector<double> x = a.values(), y = b.values();
  REQUIRE(x.size() == y.size());
  double furthest = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) furthest = std::max(furthest, std::abs(x[i] - y[i]));
  CHECK(furthest < 1e-9);
}

/// The network with group norm in some places.
template <class Config>
Config grouped(Config c) {
  NormSpec groups = norm_of(NormKind::group_norm);
  groups.groups = 2;
  c.placement.attn.pre = c.placement.attn.query = c.placement.attn.inner = groups;
  c.placement.mlp.hidden = c.placement.final = groups;
  return c;
}

/// A network with an infinite weight.
struct BrokenNetwork {
  const ViTConfig config = small_vit("pre_pre");
  ShardPool pool{2};
  Engine engine{current_device().backend, pool, config, settings()};
  const Batch data{config, 6};
  BrokenNetwork() {
    initialise(engine.parameters(), config, 3);
    random_head(engine);
    engine.parameters().value(engine.parameters().find("blocks.1.mlp.fc2.weight")).data<float>()[3] = INFINITY;
    engine.state().lr = 0.1;
  }
  static EngineSettings settings() {
    EngineSettings s;
    s.max_batch = 6;
    return s;
  }
  double step() { return engine.train_step(data.images, data.labels); }
};

struct Evaluated {
  std::vector<double> losses = std::vector<double>(14);
  std::vector<std::int32_t> predicted = std::vector<std::int32_t>(14), labels;
};
/// The evaluation of 14 images after 60 steps on them.
Evaluated evaluate_after_training(int threads) {
  const ViTConfig c = small_vit("pre_pre");
  EngineSettings settings;
  settings.max_batch = 14;
  settings.images_per_shard = 3;
  SmallTraining training(c, settings, threads);
  auto& [pool, engine, data] = training;
  engine.state().lr = 3e-3;
  for (int s = 0; s < 60; ++s) engine.train_step(data.images, data.labels);
  Evaluated out;
  out.labels.assign(data.labels.data<std::int32_t>(), data.labels.data<std::int32_t>() + 14);
  REQUIRE(!engine.evaluate(data.images, data.labels, out.losses, out.predicted));
  return out;
}

}  // namespace

TEST_CASE("engine: a ViT trains to the same bits with any number of threads") {
  for (const char* placement : {"pre_pre", "bn_ffnbn", "bn_extra"}) {
    CAPTURE(placement);
    const Outcome one = check_threads(small_vit(placement), 4, {2, 3, 7});
    CHECK(one.losses.back() < one.losses.front());  // it has learned
  }
}

TEST_CASE("engine: a ViT with dropout trains to the same bits with any number of threads") {
  ViTConfig c = small_vit("pre_pre");
  c.dropout = 0.1;
  c.attention_dropout = 0.2;
  c.drop_path = 0.3;
  c.pool = Pool::token;
  const Outcome one = check_threads(c, 4, {2, 3, 7});
  CHECK(one.losses.back() < one.losses.front());
}

TEST_CASE("engine: a Swin trains to the same bits with any number of threads") {
  for (const char* placement : {"bn_ffnbn", "bn_extra"}) {
    CAPTURE(placement);
    check_threads(small_swin(placement), 3, {2, 7});
  }
}

TEST_CASE("engine: a Swin with dropout trains to the same bits with any number of threads") {
  SwinConfig c = small_swin("pre_pre");
  c.dropout = c.attention_dropout = c.drop_path = 0.1;
  check_threads(c, 3, {2, 7});
}

TEST_CASE("engine: strong drop-path trains to the same bits with 1 or 3 threads") {
  ViTConfig c = small_vit("pre_pre");
  c.drop_path = 0.9;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CAPTURE(to_string(dtype));
    check_equal(train(c, 1, 4, 5, dtype, 13, best_bf16()), train(c, 3, 4, 5, dtype, 13, best_bf16()));
  }
}

TEST_CASE("engine: a ViT in bf16 trains to the same bits with 1 or 3 threads") {
  for (const char* placement : {"bn", "pre_pre"})
    for (const Bf16Products how : {best_bf16(), Bf16Products::emulated}) {
      CAPTURE(placement);
      CAPTURE((how == Bf16Products::emulated));
      check_equal(train(small_vit(placement), 1, 3, 2, DType::bf16, 13, how),
                  train(small_vit(placement), 3, 3, 2, DType::bf16, 13, how));
    }
}

TEST_CASE("engine: a Swin in bf16 trains to the same bits with 1 or 3 threads") {
  SwinConfig c = small_swin("pre_pre");
  c.attention_dropout = 0.1;
  for (const Bf16Products how : {best_bf16(), Bf16Products::emulated}) {
    CAPTURE((how == Bf16Products::emulated));
    check_equal(train(c, 1, 3, 2, DType::bf16, 13, how), train(c, 3, 3, 2, DType::bf16, 13, how));
  }
}

TEST_CASE("engine: losses of a Swin in bf16 stay within 2% of those in float") {
  SwinConfig c = small_swin("pre_pre");
  c.attention_dropout = 0.1;
  const Outcome wide = train(c, 1, 3, 2);
  for (const Bf16Products how : {best_bf16(), Bf16Products::emulated}) {
    const Outcome narrow = train(c, 1, 3, 2, DType::bf16, 13, how);
    for (std::size_t i = 0; i < wide.losses.size(); ++i) {
      CHECK(std::abs(narrow.losses[i] - wide.losses[i]) < 0.02 * wide.losses[i]);
      CHECK(narrow.losses[i] != wide.losses[i]);  // it was rounded
    }
  }
}

TEST_CASE("engine: the cut of a ViT's batch into shards changes only rounding") {
  for (const char* placement : {"pre_pre", "bn_ffnbn", "bn_extra"}) {
    CAPTURE(placement);
    check_close(train(small_vit(placement), 1, 3, 13, DType::f64), train(small_vit(placement), 2, 3, 2, DType::f64));
  }
}

TEST_CASE("engine: the cut of a Swin's batch into shards changes only rounding") {
  check_close(train(small_swin("pre_pre"), 1, 3, 13, DType::f64), train(small_swin("pre_pre"), 2, 3, 2, DType::f64));
}

TEST_CASE("engine: dropout masks do not depend on the cut into shards") {
  SwinConfig c = small_swin("bn_ffnbn");
  c.dropout = c.attention_dropout = c.drop_path = 0.1;
  check_close(train(c, 1, 3, 13, DType::f64), train(c, 2, 3, 2, DType::f64));
}

TEST_CASE("engine: group norm depends on the cut into shards only by rounding") {
  check_close(train(grouped(small_vit("pre_pre")), 1, 3, 13, DType::f64),
              train(grouped(small_vit("pre_pre")), 2, 3, 2, DType::f64));
  check_close(train(grouped(small_swin("pre_pre")), 1, 3, 13, DType::f64),
              train(grouped(small_swin("pre_pre")), 2, 3, 2, DType::f64));
}

TEST_CASE("engine: group norm trains to the same bits with 1 or 3 threads") {
  check_equal(train(grouped(small_vit("pre_pre")), 1, 3, 2), train(grouped(small_vit("pre_pre")), 3, 3, 2));
  check_equal(train(grouped(small_swin("pre_pre")), 1, 3, 2), train(grouped(small_swin("pre_pre")), 3, 3, 2));
}

TEST_CASE("engine: formulas train to the same bits with 1, 2 or 8 threads") {
  for (const char* text : {"x / (abs(x) + rms(x))", "(x - mean_image(x)) / std_image(x) * tanh(max_tokens(x))"}) {
    CAPTURE(text);
    NormFormula norm{.tree = formula::parse(text, {}), .text = text, .parameters = {}};
    ViTConfig c = small_vit("pre_pre");
    c.placement.attn.pre = {.kind = NormKind::formula, .formula = interned(std::move(norm))};
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int threads : {2, 8}) check_equal(train(c, 1, 3, 2, dtype), train(c, threads, 3, 2, dtype));
  }
}

TEST_CASE("engine: batch statistics of the first step have the same bits for any cut") {
  // bn normalises the patches first, so that no earlier sum depends on the cut.
  ViTConfig c = small_vit("bn");
  c.placement.stem.patch_in = norm_of(NormKind::batch_norm);
  const auto statistics = [&](std::int64_t images_per_shard) {
    EngineSettings settings;
    settings.max_batch = 13;
    settings.images_per_shard = images_per_shard;
    SmallTraining training(c, settings, 2);
    auto& [pool, engine, data] = training;
    engine.train_step(data.images, data.labels);
    std::vector<float> all;
    for (const char* name : {"stem.patch_in.running_mean", "stem.patch_in.running_var"}) {
      const Tensor t = engine.parameters().buffer(engine.parameters().find_buffer(name));
      all.insert(all.end(), t.data<float>(), t.data<float>() + t.size());
    }
    return all;
  };
  CHECK(statistics(13) == statistics(2));
  CHECK(statistics(5) == statistics(1));
}

TEST_CASE("engine: the third step has the memory of the second") {
  on_each_device([] {
    for (const ModelConfig& c : {ModelConfig(small_vit("pre_pre")), ModelConfig(small_vit("bn_ffnbn")),
                                 ModelConfig(small_swin("pre_pre")), ModelConfig(small_swin("bn_ffnbn"))}) {
      // Shards that never meet take whichever memory is free, so several threads would change the addresses.
      EngineSettings settings;
      settings.max_batch = 12;
      settings.images_per_shard = 2;
      SmallTraining training(c, settings, uses_batch_norm(c) ? 2 : 1);
      auto& [pool, engine, data] = training;
      engine.train_step(data.images, data.labels);
      engine.train_step(data.images, data.labels);
      const auto second = engine.last_addresses();
      const std::size_t bytes = engine.arena_bytes();
      engine.train_step(data.images, data.labels);
      CHECK(engine.last_addresses() == second);
      CHECK(engine.arena_bytes() == bytes);
    }
  });
}

TEST_CASE("engine: a step that is not finite leaves the weights as they were") {
  on_each_device([] {
    BrokenNetwork network;
    const Tensor flat = network.engine.parameters().flat_values();
    const std::vector<float> before(flat.data<float>(), flat.data<float>() + flat.size());
    CHECK(std::isnan(network.step()));
    CHECK(std::memcmp(before.data(), flat.data<float>(), before.size() * sizeof(float)) == 0);
  });
}

TEST_CASE("engine: the search names where a step is not finite") {
  on_each_device([] {
    BrokenNetwork network;
    CHECK(std::isnan(network.step()));
    const NonFinite found = network.engine.find_nonfinite(network.data.images, network.data.labels);
    REQUIRE(bool(found));
    CHECK(std::string(found.op) == "linear_add");
    CHECK(std::string(found.site) == "blocks.1.mlp.fc2");
  });
}

TEST_CASE("engine: after 60 steps a small batch is classified without error") {
  const Evaluated evaluated = evaluate_after_training(1);
  CHECK(evaluated.predicted == evaluated.labels);
}

TEST_CASE("engine: evaluation has the same bits with 1 or 3 threads") {
  const Evaluated one = evaluate_after_training(1), three = evaluate_after_training(3);
  CHECK(one.losses == three.losses);
  CHECK(one.predicted == three.predicted);
}

TEST_CASE("engine: what a step that failed was to read is not written later") {
  for (const TestDevice& device : devices_under_test()) {
    if (!device.backend.whole_batch()) continue;  // the CPU reads at once
    CAPTURE(device.name);
    const ModelConfig c = small_vit("pre_pre");
    std::vector<float> target;
    {
      ShardPool pool(1);
      EngineSettings settings;
      settings.max_batch = 4;
      Engine engine(device.backend, pool, c, settings);
      initialise(engine.parameters(), c, 3);
      Observers observers;
      observers.branch = [&](const Shard&, const std::string&, const Var& branch) {
        target.assign(static_cast<std::size_t>(branch.value().size()), -1.0f);
        device.backend.read(branch.value(), target.data());
        throw DeviceMemoryError(2, 1, 3);
      };
      engine.use_probe(observers);
      const Batch data(c, 4);
      CHECK_THROWS_AS(engine.train_step(data.images, data.labels), DeviceMemoryError);
    }
    device.backend.synchronize();
    CHECK(!target.empty());
    CHECK(std::all_of(target.begin(), target.end(), [](float value) { return value == -1.0f; }));
  }
}
