#include "experiments/cli/bench_shapes.h"

#include "nn/init.h"

namespace normlab {
namespace {
constexpr BenchShape kShapes[] = {
    {"micro", 32, 4, 64, 4, 2, 10, 64},
    {"tiny", 32, 4, 192, 12, 3, 10, 128},
    {"small", 224, 16, 384, 12, 6, 1000, 32},
};
}  // namespace

std::span<const BenchShape> bench_shapes() { return kShapes; }

std::vector<std::string> bench_shape_names() {
  std::vector<std::string> names;
  for (const BenchShape& s : kShapes) names.emplace_back(s.name);
  return names;
}

const BenchShape& bench_shape(const std::string& name) {
  for (const BenchShape& s : kShapes)
    if (name == s.name) return s;
  throw InputError(concat("--shape ", name, ": micro, tiny and small are there"));
}

ViTConfig bench_model(const BenchShape& s, const std::string& placement) {
  ViTConfig c;
  c.image_size = {s.image, s.image};
  c.patch_size = s.patch;
  c.embed_dim = s.embed_dim;
  c.mlp_dim = 4 * s.embed_dim;
  c.depth = s.depth;
  c.num_heads = s.heads;
  c.num_classes = s.classes;
  const NamedPlacement* row = find_placement(placement);
  if (!row) throw InputError(concat("--placement ", placement, ": no row of that name"));
  c.placement = row->placement;
  return c;
}

BenchEngine::BenchEngine(const ViTConfig& config, const EngineSettings& settings, int threads) : pool(threads) {
  engine = std::make_unique<Engine>(cpu_backend(), pool, config, settings);
  initialise(engine->parameters(), config, 0);
  images =
      memory_.empty({settings.max_batch, config.image_size[0], config.image_size[1], config.channels}, settings.dtype);
  labels = memory_.empty({settings.max_batch}, DType::i32);
  const StreamKey key = stream_key(0, "bench", "images");
  for (std::int64_t i = 0; i < images.size(); ++i) {
    const auto value = static_cast<float>(normal(key, static_cast<std::uint64_t>(i)));
    if (settings.dtype == DType::bf16)
      images.data<bf16>()[i] = bf16(value);
    else
      images.data<float>()[i] = value;
  }
  for (std::int64_t i = 0; i < settings.max_batch; ++i)
    labels.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % config.num_classes);
  engine->state().lr = 1e-3;
  engine->state().clip_norm = 1.0;
}

}  // namespace normlab
