// Whole optimisation steps: bits for any number of threads, shards against the whole batch, addresses.
#include "nn/engine.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "core/random.h"
#include "nn/init.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/devices.h"
#include "tests/nn/random_head.h"
#include "tests/nn/small_network.h"

using namespace normlab;

namespace {

struct Outcome {
  std::vector<double> losses;
  std::vector<std::byte> bytes;  // parameters, then buffers
  /// Of a training in f64, to compare up to rounding.
  std::vector<double> values() const {
    std::vector<double> out(bytes.size() / sizeof(double));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  bool operator==(const Outcome& o) const { return losses == o.losses && bytes == o.bytes; }
};

Outcome train(const ModelConfig& c, int threads, int steps, std::int64_t images_per_shard, DType dtype = DType::f32,
              std::int64_t batch = 13, Bf16Products bf16_products = best_bf16()) {
  ShardPool pool(threads);
  EngineSettings settings;
  settings.precision = precision_of(dtype, bf16_products);
  settings.max_batch = batch;
  settings.images_per_shard = images_per_shard;
  Engine engine(current_device().backend, pool, c, settings);
  initialise(engine.parameters(), c, 3);
  random_head(engine);
  const Batch data(c, batch, dtype);
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

/// That two trainings in f64 differ in nothing but rounding: losses, parameters and running statistics.
void check_close(const Outcome& a, const Outcome& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) CHECK(std::abs(a.losses[i] - b.losses[i]) < 1e-9);
  const std::vector<double> x = a.values(), y = b.values();
  REQUIRE(x.size() == y.size());
  double furthest = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) furthest = std::max(furthest, std::abs(x[i] - y[i]));
  CHECK(furthest < 1e-9);
}

}  // namespace

TEST_CASE("engine: equal bits for 1, 2, 3 and 7 threads, dropout and batch norm included") {
  ViTConfig dropping = small_vit("pre_pre");
  dropping.dropout = 0.1;
  dropping.attention_dropout = 0.2;
  dropping.drop_path = 0.3;
  dropping.pool = Pool::token;
  for (const ViTConfig& c : {small_vit("pre_pre"), small_vit("bn_ffnbn"), small_vit("bn_extra"), dropping}) {
    const Outcome one = train(c, 1, 4, 2);
    CHECK(std::isfinite(one.losses.back()));
    CHECK(one.losses.back() < one.losses.front());
    for (const int threads : {2, 3, 7}) {
      CAPTURE(threads);
      CHECK(train(c, threads, 4, 2) == one);
    }
  }
  SwinConfig swin = small_swin("pre_pre");
  swin.dropout = swin.attention_dropout = swin.drop_path = 0.1;
  for (const SwinConfig& c : {swin, small_swin("bn_ffnbn"), small_swin("bn_extra")}) {
    const Outcome one = train(c, 1, 3, 2);
    CHECK(std::isfinite(one.losses.back()));
    for (const int threads : {2, 7}) CHECK(train(c, threads, 3, 2) == one);
  }
  ViTConfig skipping = small_vit("pre_pre");
  skipping.drop_path = 0.9;
  for (const DType dtype : {DType::f32, DType::bf16})
    CHECK(train(skipping, 1, 4, 5, dtype, 13, best_bf16()) == train(skipping, 3, 4, 5, dtype, 13, best_bf16()));
  for (const char* placement : {"bn", "pre_pre"})
    for (const Bf16Products how : {best_bf16(), Bf16Products::emulated})
      CHECK(train(small_vit(placement), 1, 3, 2, DType::bf16, 13, how) ==
            train(small_vit(placement), 3, 3, 2, DType::bf16, 13, how));
}

TEST_CASE("engine: a Swin in bf16 follows the one in float, with equal bits for any number of threads") {
  SwinConfig c = small_swin("pre_pre");
  c.attention_dropout = 0.1;
  for (const Bf16Products how : {best_bf16(), Bf16Products::emulated}) {
    const Outcome narrow = train(c, 1, 3, 2, DType::bf16, 13, how), wide = train(c, 1, 3, 2);
    CHECK(train(c, 3, 3, 2, DType::bf16, 13, how) == narrow);
    for (std::size_t i = 0; i < wide.losses.size(); ++i) {
      CHECK(std::abs(narrow.losses[i] - wide.losses[i]) < 0.02 * wide.losses[i]);
      CHECK(narrow.losses[i] != wide.losses[i]);
    }
  }
}

TEST_CASE("engine: the cut into shards changes nothing but rounding, and batch statistics not even that") {
  for (const char* placement : {"pre_pre", "bn_ffnbn", "bn_extra"}) {
    CAPTURE(placement);
    check_close(train(small_vit(placement), 1, 3, 13, DType::f64), train(small_vit(placement), 2, 3, 2, DType::f64));
  }
  SwinConfig swin = small_swin("bn_ffnbn");
  swin.dropout = swin.attention_dropout = swin.drop_path = 0.1;  // masks go by image, not by shard
  for (const SwinConfig& c : {swin, small_swin("pre_pre")}) {
    check_close(train(c, 1, 3, 13, DType::f64), train(c, 2, 3, 2, DType::f64));
  }
  NormSpec groups = norm_of(NormKind::group_norm);
  groups.groups = 2;
  const auto grouped = [&](auto config) {
    config.placement.attn.pre = config.placement.attn.query = config.placement.attn.inner = groups;
    config.placement.mlp.hidden = config.placement.final = groups;
    check_close(train(config, 1, 3, 13, DType::f64), train(config, 2, 3, 2, DType::f64));
    CHECK(train(config, 1, 3, 2) == train(config, 3, 3, 2));
  };
  grouped(small_vit("pre_pre"));
  grouped(small_swin("pre_pre"));
  // The statistics of the first step, before any rounded update: to the bit. bn normalises patches first, whatever the
  // shard.
  ViTConfig c = small_vit("bn");
  c.placement.stem.patch_in = norm_of(NormKind::batch_norm);
  const auto running_mean = [&](std::int64_t images_per_shard) {
    ShardPool pool(2);
    EngineSettings settings;
    settings.max_batch = 13;
    settings.images_per_shard = images_per_shard;
    Engine engine(current_device().backend, pool, c, settings);
    initialise(engine.parameters(), c, 3);
    const Batch data(c, 13);
    engine.train_step(data.images, data.labels);
    const Tensor t = engine.parameters().buffer(engine.parameters().find_buffer("stem.patch_in.running_var"));
    return std::vector<float>(t.data<float>(), t.data<float>() + t.size());
  };
  CHECK(running_mean(13) == running_mean(2));
  CHECK(running_mean(5) == running_mean(1));
}

TEST_CASE("engine: steps two and three use the same addresses and take no memory") {
  on_each_device([] {
    for (const ModelConfig& c : {ModelConfig(small_vit("pre_pre")), ModelConfig(small_vit("bn_ffnbn")),
                                 ModelConfig(small_swin("pre_pre")), ModelConfig(small_swin("bn_ffnbn"))}) {
      // On more threads, shards that need not meet use whichever memory is free.
      ShardPool pool(uses_batch_norm(c) ? 2 : 1);
      EngineSettings settings;
      settings.max_batch = 12;
      settings.images_per_shard = 2;
      Engine engine(current_device().backend, pool, c, settings);
      initialise(engine.parameters(), c, 3);
      const Batch data(c, 12);
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

TEST_CASE("engine: a value that is not finite leaves the weights as they were and is named") {
  on_each_device([] {
    const ViTConfig c = small_vit("pre_pre");
    ShardPool pool(2);
    EngineSettings settings;
    settings.max_batch = 6;
    Engine engine(current_device().backend, pool, c, settings);
    initialise(engine.parameters(), c, 3);
    random_head(engine);
    const Tensor weight = engine.parameters().value(engine.parameters().find("blocks.1.mlp.fc2.weight"));
    weight.data<float>()[3] = INFINITY;
    const Tensor flat = engine.parameters().flat_values();
    const std::vector<float> before(flat.data<float>(), flat.data<float>() + flat.size());
    const Batch data(c, 6);
    engine.state().lr = 0.1;
    CHECK(std::isnan(engine.train_step(data.images, data.labels)));
    CHECK(std::memcmp(before.data(), flat.data<float>(), before.size() * sizeof(float)) == 0);
    const NonFinite found = engine.find_nonfinite(data.images, data.labels);
    REQUIRE(bool(found));
    CHECK(std::string(found.op) == "linear_add");
    CHECK(std::string(found.site) == "blocks.1.mlp.fc2");
  });
}

TEST_CASE("engine: evaluation gives the same bits for any number of threads and follows training on a small batch") {
  const ViTConfig c = small_vit("pre_pre");
  std::vector<std::vector<double>> all;
  for (const int threads : {1, 3}) {
    ShardPool pool(threads);
    EngineSettings settings;
    settings.max_batch = 14;
    settings.images_per_shard = 3;
    Engine engine(current_device().backend, pool, c, settings);
    initialise(engine.parameters(), c, 3);
    const Batch data(c, 14);
    engine.state().lr = 3e-3;
    for (int s = 0; s < 60; ++s) engine.train_step(data.images, data.labels);
    std::vector<double> losses(14);
    std::vector<std::int32_t> predicted(14);
    REQUIRE(!engine.evaluate(data.images, data.labels, losses, predicted));
    int right = 0;
    for (int i = 0; i < 14; ++i) right += predicted[static_cast<std::size_t>(i)] == i % 7;
    CHECK(right == 14);
    all.push_back(losses);
  }
  CHECK(all[0] == all[1]);
}

TEST_CASE("engine: plan_shards is a function of model and batch alone") {
  ViTConfig c = small_vit("pre_pre");
  const ShardPlan p = plan_shards(c, 128, 20000, 4);
  CHECK(p.images * p.shards >= 128);
  CHECK(p.images * (p.shards - 1) < 128);
  CHECK(!p.lockstep);
  CHECK(plan_shards(small_vit("bn"), 128, 20000, 4).lockstep);
  CHECK(plan_shards(c, 1, 20000, 4).shards == 1);
  CHECK(plan_shards(c, 1, 20000, 4).lanes == 1);
  c.image_size = {224, 224};
  CHECK(plan_shards(c, 32, 20000, 4).images == 1);
  CHECK(plan_shards(c, 32, 22'000'000, 4).lanes == 8);
  CHECK(plan_shards(c, 32, 100'000'000, 4).lanes == 4);  // eight would take more than 1 GB
}

TEST_CASE("engine: soft targets of one class are labels to the bit, smoothed ones train as smoothed labels do") {
  const ModelConfig c = small_vit("pre_pre");
  const auto losses_of = [&](LossKind kind, double smoothing, bool others, int form, int threads) {
    ShardPool pool(threads);
    EngineSettings settings;
    settings.precision = Precision::fp64;
    settings.loss = kind;
    settings.label_smoothing = form == 2 ? 0.5 : smoothing;  // soft targets have it in them already
    settings.smoothing = others ? Smoothing::others : Smoothing::all;
    settings.max_batch = 13;
    settings.images_per_shard = 3;
    Engine engine(current_device().backend, pool, c, settings);
    initialise(engine.parameters(), c, 3);
    random_head(engine);
    const Batch data(c, 13, DType::f64);
    const std::int64_t classes = num_classes(c);
    std::vector<double> rows(static_cast<std::size_t>(13 * classes));
    const double off = smoothing / double(others ? classes - 1 : classes);
    for (std::int64_t i = 0; i < 13; ++i)
      for (std::int64_t k = 0; k < classes; ++k)
        rows[static_cast<std::size_t>(i * classes + k)] = k != data.labels.data<std::int32_t>()[i] ? off
                                                          : others                                 ? 1 - smoothing
                                                                   : 1 - smoothing + off;
    const Tensor soft(rows.data(), {13, classes}, DType::f64);
    engine.state().lr = 1e-3;
    std::vector<double> losses;
    for (int step = 0; step < 3; ++step)
      losses.push_back(engine.train_step(data.images, form == 0 ? data.labels : soft));
    return losses;
  };
  for (const LossKind kind : {LossKind::softmax, LossKind::sigmoid}) {
    CHECK(losses_of(kind, 0.0, false, 1, 1) == losses_of(kind, 0.0, false, 0, 1));
    CHECK(losses_of(kind, 0.0, false, 1, 3) == losses_of(kind, 0.0, false, 0, 2));
    for (const bool others : {false, true}) {
      const auto labels = losses_of(kind, 0.1, others, 0, 1), soft = losses_of(kind, 0.1, others, 2, 1);
      for (std::size_t s = 0; s < labels.size(); ++s) CHECK(soft[s] == doctest::Approx(labels[s]).epsilon(1e-12));
    }
    CHECK(losses_of(kind, 0.1, true, 0, 1) != losses_of(kind, 0.1, false, 0, 1));
  }
}

TEST_CASE("engine: a label that is no class of the network is refused before a step, on every device") {
  const ViTConfig c = small_vit("pre_pre");
  on_each_device([&] {
    ShardPool pool(2);
    EngineSettings settings;
    settings.max_batch = 5;
    for (const LossKind loss : {LossKind::softmax, LossKind::sigmoid}) {
      settings.loss = loss;
      Engine engine(current_device().backend, pool, c, settings);
      initialise(engine.parameters(), c, 3);
      for (const std::int32_t bad : {7, -1, 1000}) {
        const Batch batch(c, 5);
        batch.labels.data<std::int32_t>()[3] = bad;
        const std::string what = concat("image 3 of the batch has label ", bad, ", but the network has 7 classes");
        std::vector<double> losses(5);
        std::vector<std::int32_t> predicted(5);
        CHECK_THROWS_WITH_AS(engine.train_step(batch.images, batch.labels), what.c_str(), InputError);
        CHECK_THROWS_WITH_AS(engine.upload(batch.images, batch.labels), what.c_str(), InputError);
        CHECK_THROWS_WITH_AS(engine.forward_backward(batch.images, batch.labels), what.c_str(), InputError);
        CHECK_THROWS_WITH_AS(static_cast<void>(engine.evaluate(batch.images, batch.labels, losses, predicted)),
                             what.c_str(), InputError);
        CHECK(engine.state().step == 0);
      }
    }
  });
}

TEST_CASE("engine: targets that are not one for each class of the network are refused, on every device") {
  const ViTConfig c = small_vit("pre_pre");
  on_each_device([&] {
    ShardPool pool(1);
    EngineSettings settings;
    settings.max_batch = 4;
    Engine engine(current_device().backend, pool, c, settings);
    initialise(engine.parameters(), c, 3);
    const Batch batch(c, 4);
    Arena memory;
    for (const std::int64_t classes : {6, 8}) {
      const Tensor targets = memory.empty({4, classes}, DType::f32);
      std::fill_n(targets.data<float>(), targets.size(), 0.1f);
      const std::string what = concat("targets is ", targets.shape().str(), ", expected [4, 7]");
      CHECK_THROWS_WITH_AS(engine.train_step(batch.images, targets), doctest::Contains(what.c_str()), InputError);
      CHECK(engine.state().step == 0);
    }
    CHECK_THROWS_WITH_AS(engine.train_step(batch.images, batch.labels.slice(0, 3)), "labels is [3], expected [4]",
                         InputError);
  });
}
