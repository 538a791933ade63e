// Training on every device beside the CPU's, step by step.
#include "tests/devices.h"

#include <cmath>

#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/nn/model/random_head.h"
#include "tests/nn/model/small_network.h"
#include "tests/nn/training/formula_network.h"

using namespace normlab;

namespace {

constexpr std::int64_t kBatch = 6;

struct Outcome {
  std::vector<double> losses, norms, values, evaluated;
  std::vector<std::int32_t> predicted;
};

std::vector<double> numbers(const Tensor& t) {
  if (t.dtype() == DType::f64) return {t.data<double>(), t.data<double>() + t.size()};
  return {t.data<float>(), t.data<float>() + t.size()};
}
void append(std::vector<double>& to, const Tensor& t) {
  for (const double v : numbers(t)) to.push_back(v);
}

EngineSettings settings_of(DType dtype) {
  EngineSettings settings;
  settings.precision = precision_of(dtype, current_device().bf16);
  settings.max_batch = kBatch;
  return settings;
}

/// Three steps and an evaluation on the current device.
Outcome train(const ModelConfig& c, EngineSettings settings, bool soft = false, std::uint64_t seed = 3) {
  ShardPool pool(1);
  Engine engine(current_device().backend, pool, c, settings);
  initialise(engine.parameters(), c, seed);
  random_head(engine);
  Arena memory;
  const Tensor targets = memory.empty({kBatch, num_classes(c)}, acc_of(dtype_of(settings.precision)));
  for (std::int64_t i = 0; i < targets.size(); ++i) {
    const double v = 1 / double(num_classes(c));
    if (targets.dtype() == DType::f64)
      targets.data<double>()[i] = v;
    else
      targets.data<float>()[i] = static_cast<float>(v);
  }
  Outcome out;
  engine.state().clip_norm = 1.0;
  for (int step = 0; step < 3; ++step) {
    const Batch data(c, kBatch, dtype_of(settings.precision), 5 + static_cast<std::uint64_t>(step));
    engine.state().lr = 1e-3 * (step + 1);
    out.losses.push_back(engine.train_step(data.images, soft ? targets : data.labels));
    out.norms.push_back(engine.state().grad_norm);
  }
  append(out.values, engine.parameters().flat_values());
  append(out.values, engine.parameters().flat_buffers());
  if (engine.average())
    for (const Tensor& t : {engine.average()->values(), engine.average()->buffers()}) append(out.values, t);
  const Batch data(c, 5, dtype_of(settings.precision));
  out.evaluated.resize(5 + static_cast<std::size_t>(5 * num_classes(c)));
  out.predicted.resize(5);
  REQUIRE(!engine.evaluate(data.images, data.labels, std::span(out.evaluated).first(5), out.predicted,
                           std::span(out.evaluated).subspan(5)));
  return out;
}

/// As a share of each number, or of 1 where it is smaller.
double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i])));
  return worst;
}

/// The same on the CPU, and then within those tolerances; the second is for what an update has gone through.
void check_devices(const ModelConfig& c, DType dtype, double tolerance, double updated_tolerance,
                   const std::function<void(EngineSettings&)>& change = nullptr, bool soft = false) {
  const auto run = [&] {
    EngineSettings settings = settings_of(dtype);
    if (change) change(settings);
    return train(c, settings, soft);
  };
  const Outcome cpu = run();
  on_each_device([&] {
    if (!current_device().backend.whole_batch()) return;
    const Outcome here = run();
    CHECK(furthest(here.losses, cpu.losses) <= tolerance);
    CHECK(furthest(here.norms, cpu.norms) <= tolerance);
    CHECK(furthest(here.values, cpu.values) <= updated_tolerance);
    CHECK(furthest(here.evaluated, cpu.evaluated) <= updated_tolerance);
    if (dtype == DType::f64) CHECK(here.predicted == cpu.predicted);
  });
}

ViTConfig dropping() {
  ViTConfig c = small_vit("pre_pre");
  c.dropout = 0.1;
  c.attention_dropout = 0.2;
  c.drop_path = 0.3;
  c.pool = Pool::token;
  return c;
}

/// Four steps on the current device, then one with an infinite pixel.
struct BrokenStep {
  BrokenStep() {
    initialise(engine.parameters(), config, 3);
    engine.state().lr = 1e-3;
    bad.images.data<float>()[7] = INFINITY;
    for (int s = 0; s < 4; ++s) last = step(good);
    CHECK(std::isnan(step(bad)));
    CHECK(engine.state().nonfinite == 1);
  }
  double step(const Batch& batch) { return engine.train_step(batch.images, batch.labels); }
  NonFinite find() { return engine.find_nonfinite(bad.images, bad.labels); }
  const ViTConfig config = small_vit("pre_pre");
  ShardPool pool{1};
  Engine engine{current_device().backend, pool, config, settings_of(DType::f32)};
  const Batch good{config, kBatch};
  Batch bad{config, kBatch};
  double last = 0.0;  // the loss of the last good step
};

}  // namespace

TEST_CASE("devices: a ViT in double trains as on the CPU") {
  for (const char* placement : {"pre_pre", "post_post", "dpn", "bn_ffnbn", "dyt"})
    check_devices(small_vit(placement), DType::f64, 1e-10, 1e-9);
}

TEST_CASE("devices: a ViT with dropout in double trains as on the CPU") {
  check_devices(dropping(), DType::f64, 1e-10, 1e-9);
}

TEST_CASE("devices: a Swin with dropout in double trains as on the CPU") {
  SwinConfig swin = small_swin("pre_pre");
  swin.dropout = swin.attention_dropout = swin.drop_path = 0.1;
  check_devices(swin, DType::f64, 1e-10, 1e-9);
}

TEST_CASE("devices: a Swin with batch norm in double trains as on the CPU") {
  check_devices(small_swin("bn_ffnbn"), DType::f64, 1e-10, 1e-9);
}

TEST_CASE("devices: networks with formulas train as on the CPU") {
  check_devices(with_formulas(), DType::f64, 1e-10, 1e-9);
  check_devices(with_formulas(), DType::f32, 1e-5, 2e-3);
  SwinConfig swin = small_swin("pre_pre");
  swin.placement.attn.pre = swin.placement.attn.key = norm_by(formula::kOfWindows);
  swin.placement.attn.pre.eps = swin.placement.attn.key.eps = 1e-5;
  check_devices(swin, DType::f64, 1e-10, 1e-9);
}

TEST_CASE("devices: networks with activations and gated MLPs train as on the CPU") {
  ViTConfig plain = small_vit("bn_ffnbn"), swiglu = dropping();
  plain.activation = {ActivationKind::relu_squared};
  swiglu.mlp = MlpForm::gated;
  swiglu.activation = {ActivationKind::silu};
  for (const ViTConfig& c : {plain, swiglu, with_gates()}) check_devices(c, DType::f64, 1e-10, 1e-9);
  // Not the one with batch norms: biases before these have gradients of rounding alone.
  for (const ViTConfig& c : {swiglu, with_gates()}) check_devices(c, DType::f32, 1e-5, 2e-3);
  SwinConfig swin = small_swin("bn_ffnbn");
  swin.mlp = MlpForm::gated;
  swin.activation = {ActivationKind::gelu};
  check_devices(swin, DType::f64, 1e-10, 1e-9);
}

TEST_CASE("devices: networks with gates, learned scales and exclusive heads train as on the CPU") {
  for (const AttnGate gate : {AttnGate::head, AttnGate::channel}) {
    const ViTConfig all = with_heads(small_vit("pre_pre"), gate);
    check_devices(all, DType::f64, 1e-10, 1e-9);
    check_devices(all, DType::f32, 1e-5, 2e-3);
    check_devices(with_heads(dropping(), gate), DType::f64, 1e-10, 1e-9);
    check_devices(with_heads(small_swin("bn_ffnbn"), gate), DType::f64, 1e-10, 1e-9);
  }
  // With dropout all parts together are further from double than a part.
  ViTConfig gated = dropping(), exclusive = dropping();
  gated.placement.attn_gate = AttnGate::head;
  exclusive.placement.attn.exclude_self = true;
  for (const ViTConfig& c : {gated, exclusive}) check_devices(c, DType::f32, 1e-5, 2e-3);
}

TEST_CASE("devices: norms of several operations train as on the CPU") {
  for (const ViTConfig& c : {with_gated_norms(), with_prep_bn()}) check_devices(c, DType::f64, 1e-10, 1e-9);
  check_devices(with_gated_norms(), DType::f32, 1e-5, 2e-3);
}

TEST_CASE("devices: soft targets train as on the CPU") {
  check_devices(small_vit("pre_pre"), DType::f64, 1e-10, 1e-9, nullptr, true);
}

TEST_CASE("devices: less common settings train as on the CPU") {
  check_devices(small_vit("pre_pre"), DType::f64, 1e-10, 1e-9, [](EngineSettings& s) {
    s.loss = LossKind::sigmoid;
    s.accumulate = 2;
    s.ema.decay = 0.9;
    s.optimizer.layer_decay = 0.8;
    s.label_smoothing = 0.1;
  });
}

TEST_CASE("devices: running statistics of groups and parts, and their averages, are those of the CPU") {
  for (const RunningFrom running :
       {RunningFrom::all_groups, RunningFrom::first_group, RunningFrom::first_group_of_step}) {
    ViTConfig c = small_vit("bn_ffnbn");
    c.placement.final.statistics_batch = 1;
    c.placement.final.running = running;
    check_devices(c, DType::f64, 1e-10, 1e-9, [](EngineSettings& s) {
      s.accumulate = 2;
      s.ema.decay = 0.9;
    });
  }
}

TEST_CASE("devices: training in float is the CPU's within rounding") {
  check_devices(dropping(), DType::f32, 1e-5, 2e-3);  // Adam's first steps turn rounding of a gradient of 0 into lr
}

TEST_CASE("devices: training in bf16 is no further from float than twice the CPU's") {
  // Two roundings at other places: as far from each other as either is from float. On a GPU drop-path has no short
  // form.
  ViTConfig dropped = dropping();
  dropped.short_forms = false;
  // The sum over several networks, since those of a single one scatter.
  constexpr std::uint64_t kSeeds = 4;
  struct Errors {
    double losses = 0, norms = 0, evaluated = 0;
    void add(const Outcome& of, const Outcome& wide) {
      losses += furthest(of.losses, wide.losses);
      norms += furthest(of.norms, wide.norms);
      evaluated += furthest(of.evaluated, wide.evaluated);
    }
  };
  for (const ViTConfig& c : {dropped, with_gates()}) {
    std::vector<Outcome> wide;
    Errors cpu;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      wide.push_back(train(c, settings_of(DType::f32), false, seed));
      cpu.add(train(c, settings_of(DType::bf16), false, seed), wide.back());
    }
    on_each_device([&] {
      if (!current_device().backend.whole_batch()) return;
      Errors here;
      for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        const Outcome of = train(c, settings_of(DType::bf16), false, seed);
        here.add(of, wide[seed]);
        CHECK(of.losses != wide[seed].losses);
      }
      CHECK(here.losses <= 2 * cpu.losses);
      CHECK(here.norms <= 2 * cpu.norms);
      CHECK(here.evaluated <= 2 * cpu.evaluated);
    });
  }
}

TEST_CASE("devices: recorded steps are the CPU's, also of formulas that read their training's progress") {
  const auto run_with = [](const ViTConfig& c) {
    ShardPool pool(1);
    Engine engine(current_device().backend, pool, c, settings_of(DType::f64));
    initialise(engine.parameters(), c, 3);
    engine.state().clip_norm = 1.0;
    std::vector<double> numbers;
    for (int step = 0; step < 12; ++step) {
      if (step == 6) {
        const Batch more(c, 3 * kBatch, DType::f64);
        std::vector<double> losses(3 * kBatch);
        std::vector<std::int32_t> predicted(3 * kBatch);
        REQUIRE(!engine.evaluate(more.images, more.labels, losses, predicted));
        numbers.insert(numbers.end(), losses.begin(), losses.end());
      }
      const Batch data(c, kBatch, DType::f64, 5 + static_cast<std::uint64_t>(step));
      engine.state().lr = 1e-4 * (step + 1);
      engine.state().progress = step / 12.0;
      engine.start_step(engine.upload(data.images, data.labels));
      numbers.push_back(engine.finish_step());
      numbers.push_back(engine.state().grad_norm);
    }
    return numbers;
  };
  for (const ViTConfig& c : {dropping(), with_formulas(), with_gates(), with_gated_norms(), with_prep_bn()}) {
    const auto run = [&] { return run_with(c); };
    const std::vector<double> cpu = run();
    on_each_device([&] {
      CHECK(furthest(run(), cpu) <= 1e-9);  // takes memory for uploads, after which recordings are stale
      const long before = emulation::graphs_launched();
      CHECK(furthest(run(), cpu) <= 1e-9);
      // All but the first step and, where the evaluation took memory, the one after it.
      if (current_device().name == "cuda (emulated)") CHECK(emulation::graphs_launched() - before >= 10);
    });
  }
}

TEST_CASE("devices: the search names where a step is not finite") {
  on_each_device([&] {
    BrokenStep training;
    const NonFinite found = training.find();
    REQUIRE(bool(found));
    CHECK(std::string(found.site) == "patch_embed");
  });
}

TEST_CASE("devices: training goes on after a step that is not finite") {
  on_each_device([&] {
    BrokenStep training;
    REQUIRE(bool(training.find()));
    CHECK(training.step(training.good) < training.last);
    CHECK(training.engine.state().nonfinite == 0);
  });
}

TEST_CASE("devices: two runs have equal bits") {
  on_each_device([] {
    for (const ModelConfig& c : {ModelConfig(dropping()), ModelConfig(small_swin("bn_ffnbn")),
                                 ModelConfig(with_formulas()), ModelConfig(with_gates())}) {
      const Outcome first = train(c, settings_of(DType::f32)), second = train(c, settings_of(DType::f32));
      CHECK(first.losses == second.losses);
      CHECK(first.norms == second.norms);
      CHECK(first.values == second.values);
      CHECK(first.evaluated == second.evaluated);
    }
  });
}
