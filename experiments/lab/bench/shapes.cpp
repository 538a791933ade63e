#include "experiments/lab/bench/shapes.h"

#include "core/backend.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/bench/measure.h"
#include "nn/model/fuse.h"
#include "nn/model/host_tensors.h"
#include "nn/model/init.h"
#include "nn/training/nonfinite.h"

namespace normlab {
namespace {
constexpr BenchShape kShapes[] = {
    {"micro", 32, 4, 64, 4, 2, 10, 64},
    {"tiny", 32, 4, 192, 12, 3, 10, 128},
    {"small", 224, 16, 384, 12, 6, 1000, 32},
    {"s16", 224, 16, 384, 12, 6, 1000, 256},
    {"deit_s", 224, 16, 384, 12, 6, 1000, 32, "", true},
    {"swin_t", 224, 4, 96, 12, 3, 1000, 32, "Swin-T"},
    {"dyt", 64, 8, 768, 6, 4, 200, 64, "", true},
};

/// Images per second of `run`, which processes `images` per call and waits for completion.
template <class Run>
double speed(double seconds, std::int64_t images, Run&& run) {
  constexpr int kWarmup = 2;
  for (int i = 0; i < kWarmup; ++i) run();
  return double(images) / median(call_times(seconds, 3, run));
}

}  // namespace

std::vector<std::string> bench_shape_names() {
  std::vector<std::string> names;
  for (const BenchShape& s : kShapes) names.emplace_back(s.name);
  return names;
}

const BenchShape& bench_shape(const std::string& name) {
  for (const BenchShape& s : kShapes)
    if (name == s.name) return s;
  throw InputError(concat("--shape ", name, ": unknown shape; choose one of ", joined(bench_shape_names(), ", ")));
}

ModelConfig bench_model(const BenchShape& s, const std::string& placement) {
  const NamedPlacement* row = find_placement(placement);
  if (!row)
    throw InputError(
        concat("--placement ", placement, ": unknown placement; `normlab explain --placements` lists all"));
  for (const SwinVariant& variant : kSwinVariants) {
    if (variant.name != s.swin) continue;
    SwinConfig c;
    set_variant(c, variant);
    c.image_size = {s.image, s.image};
    c.num_classes = s.classes;
    c.placement = swin_placement(row->placement);
    return c;
  }
  ViTConfig c;
  c.image_size = {s.image, s.image};
  c.patch_size = s.patch;
  c.embed_dim = s.embed_dim;
  c.mlp_dim = 4 * s.embed_dim;
  c.depth = s.depth;
  c.num_heads = s.heads;
  c.num_classes = s.classes;
  c.placement = row->at(c.depth);
  if (s.class_token) {
    c.pool = Pool::token;
    c.pos_embed_class = true;
    c.init = Init::deit;
  }
  return c;
}

BenchEngine::BenchEngine(Backend& backend, const ModelConfig& config, const EngineSettings& settings, int threads)
    : pool(threads) {
  engine = std::make_unique<Engine>(backend, pool, config, settings);
  initialise(engine->parameters(), config, 0);
  images = memory_.empty({settings.max_batch, image_size(config)[0], image_size(config)[1], channels(config)},
                         engine->dtype());
  labels = memory_.empty({settings.max_batch}, DType::i32);
  const StreamKey key = stream_key(0, "bench", "images");
  for (std::int64_t i = 0; i < images.size(); ++i) {
    const auto value = static_cast<float>(normal(key, static_cast<std::uint64_t>(i)));
    if (engine->dtype() == DType::bf16)
      images.data<bf16>()[i] = bf16(value);
    else
      images.data<float>()[i] = value;
  }
  for (std::int64_t i = 0; i < settings.max_batch; ++i)
    labels.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % num_classes(config));
  engine->state().lr = 1e-3;
  engine->state().clip_norm = 1.0;
}

void BenchEngine::step() {
  if (!next_.images) next_ = engine->upload(images, labels);
  engine->start_step(next_);
  next_ = engine->upload(images, labels);
  engine->finish_step();
}

double training_speed(Backend& backend, int threads, const ModelConfig& config, const EngineSettings& settings,
                      double seconds) {
  BenchEngine bench(backend, config, settings, threads);
  return speed(seconds, settings.max_batch, [&] { bench.step(); });
}

double inference_speed(Backend& backend, int threads, const ModelConfig& config, const EngineSettings& settings,
                       double seconds) {
  BenchEngine bench(backend, config, settings, threads);
  std::vector<double> losses(static_cast<std::size_t>(settings.max_batch));
  std::vector<std::int32_t> predictions(losses.size());
  return speed(seconds, settings.max_batch, [&] {
    if (const auto found = bench.engine->evaluate(bench.images, bench.labels, losses, predictions))
      throw NonFiniteError("bench: " + found->text(), found->value);
  });
}

ModelConfig fused_config(Backend& backend, const ModelConfig& config) {
  ParameterSet parameters(backend.memory());
  make_model(parameters, config);
  parameters.allocate(DType::f32, 1, false);
  backend.synchronize();
  initialise(parameters, config, 0);
  return fuse_batch_norms(config, host_tensors(parameters)).config;
}

}  // namespace normlab
