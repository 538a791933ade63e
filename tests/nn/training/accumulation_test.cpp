// Gradient accumulation: a batch in parts trains as the whole does, with less memory.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {

struct Trained {
  std::vector<double> losses, values;
  std::size_t arena_bytes = 0;
};

EngineSettings settings_for(std::int64_t batch, std::int64_t parts) {
  EngineSettings settings;
  settings.precision = Precision::fp64;
  settings.max_batch = batch;
  settings.accumulate = parts;
  settings.drop_seed = 3;
  settings.optimizer.eps = 1e-3;  // or Adam makes a sign of the rounding of gradients that vanish
  return settings;
}

Trained train(const ModelConfig& c, std::int64_t max_batch, std::int64_t batch, std::int64_t parts, int threads = 2) {
  ShardPool pool(threads);
  Engine engine(cpu_backend(), pool, c, settings_for(max_batch, parts));
  initialise(engine.parameters(), c, 3);
  const Batch data(c, batch, DType::f64);
  engine.state().lr = 1e-2;
  engine.state().clip_norm = 1.0;
  Trained out;
  for (int step = 0; step < 3; ++step) out.losses.push_back(engine.train_step(data.images, data.labels));
  const Tensor flat = engine.parameters().flat_values();
  out.values.assign(flat.data<double>(), flat.data<double>() + flat.size());
  out.arena_bytes = engine.arena_bytes();
  return out;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

ViTConfig dropping(std::string_view placement) {
  ViTConfig c = small_vit(placement);
  c.dropout = c.attention_dropout = c.drop_path = 0.2;
  return c;
}

/// A batch in three parts whose last image has a NaN.
struct BrokenLaterPart {
  BrokenLaterPart() {
    data.images.data<double>()[data.images.size() - 1] = std::numeric_limits<double>::quiet_NaN();
    initialise(engine.parameters(), config, 3);
    engine.state().lr = 1e-2;
  }
  double step() { return engine.train_step(data.images, data.labels); }
  std::vector<double> values() {
    const Tensor flat = engine.parameters().flat_values();
    return {flat.data<double>(), flat.data<double>() + flat.size()};
  }
  const ViTConfig config = small_vit("pre_pre");
  Batch data{config, 12, DType::f64};
  ShardPool pool{1};
  Engine engine{cpu_backend(), pool, config, settings_for(12, 3)};
};

}  // namespace

TEST_CASE("accumulation: the parts of a batch add up to the whole") {
  for (const std::int64_t batch : {12, 11, 1}) {
    CAPTURE(batch);
    const Trained whole = train(dropping("pre_pre"), 12, batch, 1);
    for (const std::int64_t parts : {2, 3, 12}) {
      CAPTURE(parts);
      const Trained cut = train(dropping("pre_pre"), 12, batch, parts);
      CHECK(difference(cut.losses, whole.losses) < 1e-12);
      CHECK(difference(cut.values, whole.values) < 1e-12);
    }
  }
}

TEST_CASE("accumulation: the parts of a Swin's batch add up to the whole") {
  CHECK(difference(train(small_swin("pre_pre"), 12, 12, 3).values, train(small_swin("pre_pre"), 12, 12, 1).values) <
        1e-12);
}

TEST_CASE("accumulation: soft targets are cut as labels are") {
  const ViTConfig c = small_vit("pre_pre");
  const Batch data(c, 12, DType::f64);
  Arena memory;
  const Tensor targets = memory.empty({12, c.num_classes}, DType::f64);
  for (std::int64_t i = 0; i < targets.size(); ++i) targets.data<double>()[i] = double((5 * i) % 11) / 30;
  std::vector<std::vector<double>> values;
  for (const std::int64_t parts : {1, 3}) {
    ShardPool pool(2);
    Engine engine(cpu_backend(), pool, c, settings_for(12, parts));
    initialise(engine.parameters(), c, 3);
    engine.state().lr = 1e-2;
    for (int step = 0; step < 2; ++step) engine.train_step(data.images, targets);
    const Tensor flat = engine.parameters().flat_values();
    values.emplace_back(flat.data<double>(), flat.data<double>() + flat.size());
  }
  CHECK(difference(values[0], values[1]) < 1e-12);
}

TEST_CASE("accumulation: any number of threads gives the same bits") {
  CHECK(train(dropping("bn_ffnbn"), 12, 12, 3, 1).values == train(dropping("bn_ffnbn"), 12, 12, 3, 3).values);
}

TEST_CASE("accumulation: batch norms see one part at a time") {
  const ViTConfig c = small_vit("bn_ffnbn");
  CHECK(difference(train(c, 12, 12, 3).values, train(c, 12, 12, 1).values) > 1e-4);
}

TEST_CASE("accumulation: batch norms over groups of a part's size give the same") {
  ViTConfig c = small_vit("bn_ffnbn");
  visit_sites(c.placement, [](std::string_view, NormSpec& spec) {
    if (spec.kind == NormKind::batch_norm) spec.statistics_batch = 4;
  });
  CHECK(difference(train(c, 12, 12, 3).values, train(c, 12, 12, 1).values) < 1e-12);
}

TEST_CASE("accumulation: four parts take under 60% of the memory") {
  for (const char* placement : {"pre_pre", "bn_ffnbn"}) {
    ViTConfig c = small_vit(placement);
    c.image_size = {32, 32};
    c.embed_dim = 96;
    c.mlp_dim = 384;
    const auto bytes = [&](std::int64_t parts) { return train(c, 64, 64, parts, 1).arena_bytes; };
    CHECK(bytes(4) < 0.6 * double(bytes(1)));
  }
}

TEST_CASE("accumulation: a probe sees the whole batch") {
  const ViTConfig c = small_vit("pre_pre");
  const Batch data(c, 12, DType::f64);
  std::vector<std::vector<SignalProbe::Layer>> seen;
  for (const std::int64_t parts : {1, 3}) {
    ShardPool pool(1);
    Engine engine(cpu_backend(), pool, c, settings_for(12, parts));
    initialise(engine.parameters(), c, 3);
    SignalProbe probe;
    Observers observers;
    probe.observe(observers);
    engine.use_probe(observers);
    engine.train_step(data.images, data.labels);
    seen.push_back(probe.layers());
  }
  REQUIRE(seen[0].size() == 4);
  REQUIRE(seen[1].size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(seen[0][i].stream[0].afsm == doctest::Approx(seen[1][i].stream[0].afsm).epsilon(1e-12));
    CHECK(seen[0][i].branch[1].afv == doctest::Approx(seen[1][i].branch[1].afv).epsilon(1e-12));
  }
}

TEST_CASE("accumulation: a value in a later part that is not finite stops the whole step") {
  BrokenLaterPart network;
  const std::vector<double> before = network.values();
  CHECK(std::isnan(network.step()));
  CHECK(network.values() == before);
}

TEST_CASE("accumulation: a value in a later part that is not finite is found") {
  BrokenLaterPart network;
  network.step();
  CHECK(network.engine.find_nonfinite(network.data.images, network.data.labels));
}
