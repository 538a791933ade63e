// Probes: what they measure, by other means; that they change no bit of a training; that no cut changes a bit of them.
#include "nn/probes/probes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/devices.h"
#include "tests/nn/probes/seen_on_host.h"
#include "tests/nn/training/small_training.h"

using namespace normlab;

namespace {

ViTConfig dropping_vit(std::string_view placement) {
  ViTConfig c = small_vit(placement);
  c.pool = Pool::token;
  c.dropout = 0.1;
  c.drop_path = 0.3;
  return c;
}

struct Trained {
  std::vector<std::byte> weights;
  std::vector<double> readings;
};

/// Two steps over 13 images, both probed or none; head weights that are not zero let gradients through.
Trained train(const ViTConfig& c, bool probed, int threads, std::int64_t images_per_shard, DType dtype = DType::f32) {
  constexpr std::int64_t kBatch = 13;
  EngineSettings settings;
  settings.precision = precision_of(dtype);
  settings.max_batch = kBatch;
  settings.images_per_shard = images_per_shard;
  SmallTraining training(c, settings, threads);
  auto& [pool, engine, data] = training;
  const Tensor head = engine.parameters().value(engine.parameters().find("head.weight"));
  for (std::int64_t i = 0; i < head.size(); ++i) head.data<float>()[i] = 0.1f * std::sin(float(i));
  engine.state().lr = 1e-3;
  Trained out;
  for (int step = 0; step < 2; ++step) {
    SignalProbe probe;
    Observers observers;
    if (probed) probe.observe(observers);
    engine.use_probe(observers);
    engine.train_step(data.images, data.labels);
    if (!probed) continue;
    for (const SignalProbe::Layer& layer : probe.layers())
      for (int axis = 0; axis < 2; ++axis)
        for (const double v :
             {layer.stream[axis].afsm, layer.stream[axis].afv, layer.branch[axis].afsm, layer.branch[axis].afv})
          out.readings.push_back(v);
    for (const GradientNorm& n : gradient_norms(engine.parameters(), pool)) out.readings.push_back(n.norm);
    CHECK(out.readings.back() == doctest::Approx(engine.state().grad_norm).epsilon(1e-12));  // "global"
  }
  const auto append = [&](const Tensor& t) {
    const auto* p = static_cast<const std::byte*>(t.raw());
    out.weights.insert(out.weights.end(), p, p + t.bytes());
  };
  append(engine.parameters().flat_values());
  for (std::size_t b = 0; b < engine.parameters().buffers().size(); ++b)
    append(engine.parameters().buffer(static_cast<int>(b)));
  return out;
}

/// Two images of one token: 1 and 3, 5 and 11.
Tensor small_table(Arena& arena) {
  const Tensor x = arena.empty({2, 1, 2}, DType::f64);
  const double values[] = {1, 3, 5, 11};
  std::copy(std::begin(values), std::end(values), x.data<double>());
  return x;
}

std::map<std::string, double> norms_by_layer(Engine& engine, ShardPool& pool) {
  std::map<std::string, double> norms;
  for (const GradientNorm& n : gradient_norms(engine.parameters(), pool)) norms[n.layer] = n.norm;
  return norms;
}

}  // namespace

TEST_CASE("probes: a probed training has the same bits") {
  for (const char* placement : {"pre_pre", "post_post", "normformer_full", "bn_ffnbn", "layer_scale"}) {
    CAPTURE(placement);
    ViTConfig c = dropping_vit(placement);
    CHECK(train(c, true, 2, 3).weights == train(c, false, 2, 3).weights);
    c.dropout = c.drop_path = 0.0;  // branches end in a product that adds the residual
    CHECK(train(c, true, 2, 3).weights == train(c, false, 2, 3).weights);
    CHECK(train(c, true, 1, 5, DType::bf16).weights == train(c, false, 1, 5, DType::bf16).weights);
  }
}

TEST_CASE("probes: any number of threads gives the same bits") {
  for (const char* placement : {"pre_pre", "bn_ffnbn"}) {
    CAPTURE(placement);
    const ViTConfig c = dropping_vit(placement);
    const Trained one = train(c, true, 1, 3);
    for (const int threads : {2, 5}) CHECK(train(c, true, threads, 3).readings == one.readings);
  }
}

TEST_CASE("probes: the cut into shards changes only rounding") {
  for (const char* placement : {"pre_pre", "bn_ffnbn"}) {
    CAPTURE(placement);
    const ViTConfig c = dropping_vit(placement);
    const Trained one = train(c, true, 1, 3), cut = train(c, true, 2, 1);
    REQUIRE(cut.readings.size() == one.readings.size());
    for (std::size_t i = 0; i < one.readings.size(); ++i)
      CHECK(cut.readings[i] == doctest::Approx(one.readings[i]).epsilon(1e-4));
  }
}

TEST_CASE("probes: moments of equal features have the same bits for any cut") {
  Arena arena;
  const Tensor x = arena.empty({7, 5, 33}, DType::f32);
  for (std::int64_t i = 0; i < x.size(); ++i)
    x.data<float>()[i] = float(normal(stream_key(5, "test", "x"), static_cast<std::uint64_t>(i)));
  const auto moments = [&](std::int64_t images_at_a_time) {
    FeatureStatistics statistics(7, 33);
    for (std::int64_t i = 0; i < 7; i += images_at_a_time)
      see_on_host(statistics, x.slice(i, std::min<std::int64_t>(images_at_a_time, 7 - i)), i);
    std::vector<double> all;
    for (const ProbeAxis axis : kProbeAxes) {
      all.push_back(statistics.moments(axis).afsm);
      all.push_back(statistics.moments(axis).afv);
    }
    return all;
  };
  CHECK(moments(1) == moments(7));
  CHECK(moments(2) == moments(7));
}

TEST_CASE("probes: moments of features on a device are those on the host") {
  on_each_device([] {
    Arena arena(current_device().memory()), host;
    Tape tape(current_device().backend, arena);
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
      for (const Shape& shape : {Shape{3, 70, 37}, Shape{1, 1, 5}, Shape{5, 1, 300}, Shape{2, 9, 1}}) {
        tape.reset();
        const Tensor here = host.empty(shape, dtype), there = tape.empty(shape, dtype);
        for (std::int64_t i = 0; i < here.size(); ++i) {
          const double v = 100 + normal(stream_key(6, "test", "x"), static_cast<std::uint64_t>(i));
          if (dtype == DType::f64)
            here.data<double>()[i] = v;
          else if (dtype == DType::bf16)
            here.data<bf16>()[i] = bf16(v);
          else
            here.data<float>()[i] = static_cast<float>(v);
        }
        current_device().backend.synchronize();
        std::memcpy(there.raw(), here.raw(), here.bytes());
        FeatureStatistics expected(shape[0], shape.back()), seen(shape[0], shape.back());
        see_on_host(expected, here);
        seen.see(tape.input(there), 0);
        current_device().backend.synchronize();
        for (const ProbeAxis axis : kProbeAxes) {
          CHECK(seen.moments(axis).afsm == doctest::Approx(expected.moments(axis).afsm).epsilon(1e-12));
          CHECK(seen.moments(axis).afv == doctest::Approx(expected.moments(axis).afv).epsilon(1e-10));
        }
      }
  });
}

TEST_CASE("probes: AFSM and AFV are those worked out by hand") {
  Arena arena;
  FeatureStatistics statistics(2, 2);
  see_on_host(statistics, small_table(arena));
  const FeatureMoments channel = statistics.moments(ProbeAxis::channel),
                       position = statistics.moments(ProbeAxis::position);
  CHECK(channel.afsm == doctest::Approx((9 + 49) / 2.0));   // means 3 and 7
  CHECK(channel.afv == doctest::Approx((4 + 16) / 2.0));    // 1, 5 and 3, 11
  CHECK(position.afsm == doctest::Approx((4 + 64) / 2.0));  // means 2 and 8
  CHECK(position.afv == doctest::Approx((1 + 9) / 2.0));    // 1, 3 and 5, 11
}

TEST_CASE("probes: images out of range are refused") {
  Arena arena;
  FeatureStatistics statistics(2, 2);
  CHECK_THROWS_WITH_AS(see_on_host(statistics, small_table(arena), 1),
                       "probe: features are [2, 1, 2], from image 1 on; expected 2 channels of 2 images", InputError);
}

TEST_CASE("probes: another number of channels is refused") {
  Arena arena;
  FeatureStatistics statistics(2, 3);
  CHECK_THROWS_WITH_AS(see_on_host(statistics, small_table(arena)),
                       "probe: features are [2, 1, 2], from image 0 on; expected 3 channels of 2 images", InputError);
}

TEST_CASE("probes: the axis is that of the main norm") {
  for (const char* name : {"bn", "bn_ffnbn", "bn_ffnbn_respost", "bn_extra"})
    CHECK_MESSAGE(probe_axis(find_placement(name)->placement) == ProbeAxis::channel, name);
  for (const char* name : {"pre_pre", "post_post", "ln_extra_bn", "rms_norm", "dyt", "none"})
    CHECK_MESSAGE(probe_axis(find_placement(name)->placement) == ProbeAxis::position, name);
}

TEST_CASE("probes: each parameter counts in one layer of gradients") {
  ShardPool pool(1);
  Engine engine(cpu_backend(), pool, dropping_vit("dpn"), {});
  for (std::size_t p = 0; p < engine.parameters().parameters().size(); ++p)
    engine.parameters().gradient(0, static_cast<int>(p)).data<float>()[0] = 2.0f;
  std::map<std::string, double> norms = norms_by_layer(engine, pool);
  double sum = 0.0;
  for (const char* layer : {"stem", "blocks.0.attn", "blocks.0.mlp", "blocks.1", "final", "head"}) {
    REQUIRE_MESSAGE(norms.contains(layer), layer);
    sum += norms[layer] * norms[layer];
  }
  CHECK(sum == doctest::Approx(4.0 * double(engine.parameters().parameters().size())));
  CHECK(norms["global"] == doctest::Approx(std::sqrt(sum)));
  CHECK(norms["patch_embed"] == doctest::Approx(std::sqrt(8.0)));
  CHECK(norms["head"] == doctest::Approx(std::sqrt(8.0)));
}

TEST_CASE("probes: gradients of a distillation token count in the stem") {
  ViTConfig c = dropping_vit("dpn");
  c.distill_token = true;
  ShardPool pool(1);
  Engine engine(cpu_backend(), pool, c, {});
  const ParameterSet& set = engine.parameters();
  set.gradient(0, set.find("dist_token")).data<float>()[0] = 3.0f;
  set.gradient(0, set.find("head_dist.weight")).data<float>()[0] = 4.0f;
  std::map<std::string, double> norms = norms_by_layer(engine, pool);
  CHECK(norms["stem"] == 3.0);
  CHECK(!norms.contains("dist_token"));
  CHECK(norms["global"] == 5.0);
}

namespace {

/// The accuracy of one step's batch, and the outputs that it was measured on.
struct BatchAnswers {
  double accuracy;
  std::vector<double> outputs;
};

BatchAnswers answers(const ViTConfig& c, bool mixed, int threads, std::int64_t images_per_shard,
                     Backend& backend = current_device().backend) {
  EngineSettings settings;
  settings.max_batch = 13;
  settings.images_per_shard = images_per_shard;
  SmallTraining training(c, settings, threads, backend);
  auto& [pool, engine, data] = training;
  for (std::int64_t i = 0; i < 13; ++i) data.labels.data<std::int32_t>()[i] = std::int32_t(i * i % c.num_classes);
  Arena arena;
  const Tensor shares = arena.empty({13, c.num_classes}, DType::f32);
  for (std::int64_t i = 0; i < shares.size(); ++i) shares.data<float>()[i] = 0;
  for (std::int64_t i = 0; i < 13; ++i) {
    float* const row = shares.data<float>() + i * c.num_classes;
    row[data.labels.data<std::int32_t>()[i]] += 0.6f;
    row[data.labels.data<std::int32_t>()[12 - i]] += 0.4f;
  }
  random_head(engine);
  BatchAnswers out{0, std::vector<double>(std::size_t(13 * c.num_classes))};
  Observers observers;
  observers.value = [&](const Shard& shard, const std::string& name, const Var& v) {
    if (name != "outputs") return;
    const std::vector<double> values = values_of(shard.tape.backend(), v.value());
    std::copy(values.begin(), values.end(), out.outputs.begin() + shard.first_image() * c.num_classes);
  };
  const Engine::DeviceBatch batch = engine.upload(data.images, mixed ? shares : data.labels);
  BatchAccuracyProbe probe;
  probe.observe(observers, engine.backend(), batch.labels);
  engine.use_probe(observers);
  engine.start_step(batch);
  engine.finish_step();
  out.accuracy = probe.accuracy();
  return out;
}

}  // namespace

TEST_CASE("probes: the accuracy of a batch counts the images answered with the label, or with the larger share") {
  ViTConfig c = small_vit("pre_pre");
  c.num_classes = 3;
  on_each_device([&] {
    for (const bool mixed : {false, true}) {
      const BatchAnswers got = answers(c, mixed, 1, 13);
      int right = 0;
      for (int i = 0; i < 13; ++i) {
        const double* const row = got.outputs.data() + 3 * i;
        const int answer = row[0] >= row[1] && row[0] >= row[2] ? 0 : row[1] >= row[2] ? 1 : 2;
        right += answer == i * i % 3;
      }
      CHECK(right > 0);
      CHECK(right < 13);
      CHECK(got.accuracy == double(right) / 13);
      CHECK(answers(c, mixed, 3, 2).accuracy == got.accuracy);
    }
  });
}
