#include "nn/training/weight_average.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {

std::vector<double> numbers(const Tensor& t) { return {t.data<double>(), t.data<double>() + t.size()}; }

EngineSettings settings_for(DType dtype, double decay, std::int64_t every) {
  EngineSettings settings;
  settings.precision = precision_of(dtype);
  settings.max_batch = 6;
  settings.ema = {decay, every};
  return settings;
}

struct Run {
  Run(const ModelConfig& c, DType dtype, double decay, std::int64_t every)
      : engine(cpu_backend(), pool, c, settings_for(dtype, decay, every)), data(c, 6, dtype) {
    initialise(engine.parameters(), c, 3);
    engine.state().lr = 1e-2;
  }
  void step() { engine.train_step(data.images, data.labels); }
  std::vector<double> logits() {
    std::vector<double> losses(6), out(6 * static_cast<std::size_t>(num_classes(engine.config())));
    std::vector<std::int32_t> predictions(6);
    REQUIRE(!engine.evaluate(data.images, data.labels, losses, predictions, out));
    return out;
  }
  /// Takes five steps. Returns the average of what `read` gives at the start and after every `every`-th of them.
  std::vector<double> followed(std::int64_t every, const std::function<std::vector<double>()>& read) {
    std::vector<double> average = read();
    for (int s = 1; s <= 5; ++s) {
      step();
      if (s % every != 0) continue;
      const std::vector<double> now = read();
      for (std::size_t i = 0; i < average.size(); ++i) average[i] = 0.75 * average[i] + 0.25 * now[i];
    }
    return average;
  }
  ShardPool pool{2};
  Engine engine;
  Batch data;
};

double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

std::vector<std::byte> bytes_of(Engine& engine) {
  const Tensor t = engine.parameters().update().values;
  const auto* begin = static_cast<const std::byte*>(t.raw());
  return {begin, begin + t.bytes()};
}

}  // namespace

TEST_CASE("weight_average: it follows the values from the first weights on") {
  for (const std::int64_t every : {1, 2}) {
    CAPTURE(every);
    Run run(small_vit("bn_ffnbn"), DType::f64, 0.75, every);
    const ParameterSet& set = run.engine.parameters();
    const std::vector<double> expected = run.followed(every, [&] { return numbers(set.flat_values()); });
    CHECK(furthest(numbers(run.engine.average()->values()), expected) < 1e-14);
  }
}

TEST_CASE("weight_average: given statistics are averaged from the first ones on") {
  for (const std::int64_t every : {1, 2}) {
    CAPTURE(every);
    Run run(small_vit("bn_ffnbn"), DType::f64, 0.75, every);
    run.engine.average()->start_from_statistics();
    const ParameterSet& set = run.engine.parameters();
    const std::vector<double> expected = run.followed(every, [&] { return numbers(set.flat_buffers()); });
    const std::vector<double> statistics = numbers(run.engine.average()->buffers());
    CHECK(furthest(statistics, expected) < 1e-14);
    CHECK(statistics != numbers(set.flat_buffers()));
  }
}

// By hand: momentum 0.1, so that after s steps a share of 0.9^s is the initial 0 or 1, which no image gave.
TEST_CASE("weight_average: running statistics are averaged without their initial values") {
  for (const std::int64_t every : {1, 2}) {
    CAPTURE(every);
    Run run(small_vit("bn_ffnbn"), DType::f64, 0.75, every);
    const ParameterSet& set = run.engine.parameters();
    const std::vector<double> initial = numbers(set.flat_buffers());
    std::vector<double> expected;
    for (int s = 1; s <= 5; ++s) {
      run.step();
      if (s % every != 0) continue;
      std::vector<double> now = numbers(set.flat_buffers());
      const double share = std::pow(0.9, s);
      for (std::size_t i = 0; i < now.size(); ++i) now[i] = (now[i] - share * initial[i]) / (1 - share);
      if (expected.empty()) expected = now;
      for (std::size_t i = 0; i < now.size(); ++i) expected[i] = 0.75 * expected[i] + 0.25 * now[i];
    }
    CHECK(furthest(numbers(run.engine.average()->buffers()), expected) < 1e-13);
  }
}

TEST_CASE("weight_average: of equal steps at rate 0 it has the statistics of the batch") {
  for (const auto& [running, accumulate] : {std::pair{RunningFrom::all_groups, 1},
                                            {RunningFrom::all_groups, 3},
                                            {RunningFrom::first_group, 3},
                                            {RunningFrom::first_group_of_step, 3}}) {
    ViTConfig c = small_vit("pre_pre");
    c.placement.stem.patch_in = norm_of(NormKind::batch_norm);
    c.placement.stem.patch_in.running = running;
    c.placement.stem.patch_in.momentum = 0.3;
    EngineSettings settings = settings_for(DType::f64, 0.9, 1);
    settings.accumulate = accumulate;
    ShardPool pool(1);
    Engine engine(cpu_backend(), pool, c, settings);
    initialise(engine.parameters(), c, 3);
    Batch data(c, 6, DType::f64);
    const std::int64_t part = data.images.size() / 3;  // three equal parts
    for (int p = 1; p < 3; ++p) std::copy_n(data.images.data<double>(), part, data.images.data<double>() + p * part);
    engine.train_step(data.images, data.labels);
    const std::vector<double> once = numbers(engine.average()->buffers());
    for (int step = 0; step < 3; ++step) engine.train_step(data.images, data.labels);
    CHECK(furthest(numbers(engine.average()->buffers()), once) < 1e-13);
    const std::vector<double> biased = numbers(engine.parameters().flat_buffers());
    CHECK(furthest(biased, once) > 1e-3);
    for (int step = 0; step < 100; ++step) engine.train_step(data.images, data.labels);
    CHECK(furthest(numbers(engine.parameters().flat_buffers()), once) < 1e-13);
  }
}

TEST_CASE("weight_average: in use, the network computes with it") {
  for (const DType dtype : {DType::f64, DType::bf16}) {
    CAPTURE(to_string(dtype));
    const ViTConfig c = small_vit("bn_ffnbn");
    Run run(c, dtype, 0.9, 1), other(c, dtype, 0.0, 1);
    for (int step = 0; step < 3; ++step) run.step();
    const WeightAverage& average = *run.engine.average();
    const auto copy = [](const Tensor& from, const Tensor& to) { std::memcpy(to.raw(), from.raw(), from.bytes()); };
    copy(average.values(), other.engine.parameters().flat_values());
    copy(average.buffers(), other.engine.parameters().flat_buffers());
    {
      const WeightAverage::InUse in_use(*run.engine.average());
      CHECK(run.logits() == other.logits());
    }
    CHECK(run.logits() != other.logits());
  }
}

TEST_CASE("weight_average: after its use, training goes on as without it") {
  for (const DType dtype : {DType::f64, DType::bf16}) {
    CAPTURE(to_string(dtype));
    const ViTConfig c = small_vit("bn_ffnbn");
    Run run(c, dtype, 0.9, 1), alone(c, dtype, 0.0, 1);
    CHECK(alone.engine.average() == nullptr);
    for (int step = 0; step < 3; ++step) {
      run.step();
      alone.step();
    }
    {
      const WeightAverage::InUse in_use(*run.engine.average());
      CHECK(run.logits() != alone.logits());
    }
    CHECK(run.logits() == alone.logits());
    run.step();
    alone.step();
    CHECK(bytes_of(run.engine) == bytes_of(alone.engine));
  }
}

TEST_CASE("weight_average: a skipped step does not change it") {
  Run run(small_vit("pre_pre"), DType::f64, 0.5, 1);
  run.step();
  const std::vector<double> before = numbers(run.engine.average()->values());
  run.data.images.data<double>()[0] = std::numeric_limits<double>::quiet_NaN();
  run.step();
  CHECK(numbers(run.engine.average()->values()) == before);
}
