// The networks that `bench` measures, with a synthetic batch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/training/engine.h"

namespace normlab {

struct BenchShape {
  const char* name;
  std::int64_t image, patch, embed_dim, depth, heads, classes, batch;
  std::string_view swin = {};  // a Swin variant, which has its own sizes
  bool class_token = false;    // a ViT with DeiT's stem and head
};
/// micro: 32 px, patch 4, width 64, depth 4; tiny: 192, 12; small: 224 px, patch 16, 384, 12; s16: the same in batches
/// of 256; deit_s: DeiT-S, the sizes of small with a class token; swin_t: Swin-T, 224 px; dyt: the ViT of
/// "Tanh as LayerNorm in Small Vision Transformers", 64 px, patch 8, 768, 6, 4 heads.
std::vector<std::string> bench_shape_names();
/// InputError for an unknown name.
const BenchShape& bench_shape(const std::string& name);
/// A shape's network with a named placement. InputError for an unknown placement.
ModelConfig bench_model(const BenchShape& shape, const std::string& placement);

/// Trains on one batch of normal noise: initial values, learning rate 1e-3, clipping at 1.
class BenchEngine {
 public:
  BenchEngine(Backend& backend, const ModelConfig& config, const EngineSettings& settings, int threads);
  /// As in a trial: an asynchronous device uploads the next batch meanwhile.
  void step();

  ShardPool pool;
  std::unique_ptr<Engine> engine;

 private:
  Arena memory_;
  Engine::DeviceBatch next_;

 public:
  Tensor images, labels;
};

/// Images per second (median) of optimisation steps (forward, backward, clip, AdamW) of `settings.max_batch` images.
double training_speed(Backend& backend, int threads, const ModelConfig& config, const EngineSettings& settings,
                      double seconds);
/// The same for evaluation, from images to losses and predictions.
double inference_speed(Backend& backend, int threads, const ModelConfig& config, const EngineSettings& settings,
                       double seconds);
/// With frozen batch norms merged into the adjacent linear layers.
ModelConfig fused_config(Backend& backend, const ModelConfig& config);

}  // namespace normlab
