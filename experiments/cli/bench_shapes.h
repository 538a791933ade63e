// The networks that `bench` measures, and an engine with a made-up batch to run one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/engine.h"

namespace normlab {

struct BenchShape {
  const char* name;
  std::int64_t image, patch, embed_dim, depth, heads, classes, batch;
  std::string_view swin = {};  // a variant of Swin, which has its own sizes
  bool class_token = false;    // a ViT that starts and ends as DeiT does
};
/// micro: 32 px, patch 4, width 64, depth 4; tiny: 192, 12; small: 224 px, patch 16, 384, 12; s16: the same in batches
/// of 256; deit_s: DeiT-S, the sizes of small with a class token; swin_t: Swin-T, 224 px.
std::vector<std::string> bench_shape_names();
/// InputError for a name that is not there.
const BenchShape& bench_shape(const std::string& name);
/// The network of a shape with a named placement. InputError for a placement that is not there.
ModelConfig bench_model(const BenchShape& shape, const std::string& placement);

/// Ready to take steps on one batch of normal noise: initial values, learning rate 1e-3, clipping at 1.
class BenchEngine {
 public:
  BenchEngine(Backend& backend, const ModelConfig& config, const EngineSettings& settings, int threads);
  /// As a trial takes them: where the device works on its own, the next batch is uploaded meanwhile.
  void step();

  ShardPool pool;
  std::unique_ptr<Engine> engine;

 private:
  Arena memory_;
  Engine::DeviceBatch next_;

 public:
  Tensor images, labels;
};

/// The median of optimisation steps (forward, backward, clip, AdamW) of `settings.max_batch` images, images a second.
double training_speed(Backend& backend, int threads, const ModelConfig& config, const EngineSettings& settings,
                      double seconds);
/// The same of evaluations, images to losses and predictions.
double inference_speed(Backend& backend, int threads, const ModelConfig& config, const EngineSettings& settings,
                       double seconds);
/// The configuration with frozen batch norms merged into the linears beside them.
ModelConfig fused_config(Backend& backend, const ModelConfig& config);

}  // namespace normlab
