#include "experiments/lab/train/cost.h"

#include <algorithm>

#include "experiments/lab/data/sliding_windows.h"
#include "nn/model/freeze.h"
#include "nn/training/optimizer.h"

namespace normlab {
namespace {

/// Values per image that a network stores for its backward pass: inputs and outputs of norms and linears, and the
/// attention weights.
double stored_values(const ModelConfig& config) {
  double sum = 0;
  const double hidden = double(hidden_tensors(network(config).mlp));
  const auto* vit = std::get_if<ViTConfig>(&config);
  const Placement& placement = placement_of(config);
  const int gates = 2 * (placement.attn_gate != AttnGate::none) + (placement.attn_scale != AttnScale::fixed);
  const int turned = vit != nullptr && vit->rotary.given() ? 3 : 0;  // queries, keys and values
  std::int64_t block = 0;
  for (const BlockSizes& s : block_sizes(config)) {
    const int wide = 9 + gates + turned + placement.attention_sites(block++).exclude_self;
    sum += double(s.attended) *
           (wide * double(s.embed_dim) + hidden * double(s.mlp_dim) + double(s.num_heads) * double(s.window));
  }
  if (vit != nullptr) return sum + double(vit->patches()) * double(vit->patch_pixels() + 2 * vit->embed_dim);
  for (const SwinStage& s : swin_stages(std::get<SwinConfig>(config)))
    sum += 6 * double(s.tokens()) * double(s.embed_dim);
  return sum;
}

/// Multiply-adds after the features of an image.
std::int64_t head_macs(const ModelConfig& config, std::int64_t width) {
  const std::int64_t head = width * num_classes(config);
  if (!has_text(config)) return head;
  ViTConfig image = std::get<ViTConfig>(config);
  image.task = Task::classify;
  return model_cost(config).macs - (model_cost(image).macs - head);
}

/// The windows in which an evaluation sees an image; of a segmentation those of a square one.
double windows_per_image(const TrialConfig& config) {
  if (task_of(config.model) != Task::segment) return 1;
  const auto [height, width] = image_size(config.model);
  const SegmentEvalConfig& settings = config.eval.segment;
  double windows = 0;
  for (const double scale : settings.scales) {
    const std::int64_t shorter = scaled_side(settings, scale, std::max(height, width));
    const auto along = [&](std::int64_t window) {
      return double(window_starts(shorter, window, settings.stride > 0 ? settings.stride : window).size());
    };
    windows += along(height) * along(width);
  }
  return windows * (settings.mirror ? 2 : 1);
}

}  // namespace

TrialCost trial_cost(const TrialConfig& config, const SliceSizes& sizes) {
  const TrainConfig& train = config.train;
  const std::size_t bytes = size_of(dtype_of(train.precision));
  TrialCost out;
  out.model = model_cost(config.model);
  out.features = feature_plan(config, sizes);
  out.head_macs = head_macs(config.model, out.features.width);
  const std::int64_t trained = trained_values(config.model, train.freeze);
  out.shards = plan_shards(config.model, train.batch_size / train.accumulate, trained, std::int64_t(bytes));
  out.train_images = sizes.train;
  if (out.train_images) {
    out.steps = count_steps(train, *out.train_images);
    out.images = double(out.steps->total) * double(std::min(train.batch_size, *out.train_images));
    out.training_flops = 6 * double(out.model.macs) * out.images;
    const std::int64_t every = out.steps->eval_every, total = out.steps->total;
    const std::int64_t evaluations = every == 0 ? 1 : (total + every - 1) / every;
    const double rounds = double(evaluations) * (train.ema.decay > 0 ? 2 : 1);  // the averages are also evaluated
    if (sizes.eval && sizes.minival)
      out.evaluated = double(*sizes.eval + *sizes.minival + std::min(config.eval.train_images, *sizes.train)) * rounds *
                      windows_per_image(config);
    out.evaluation_flops = 2 * double(out.model.macs) * out.evaluated;
    if (out.features.once()) {
      const double head = double(out.head_macs);
      out.training_flops = 2 * double(out.model.macs) * out.features.images + 6 * head * out.images;
      out.evaluation_flops = 2 * head * out.evaluated;
    }
  }
  // Weights and gradients in float; products read a copy of the weights, packed or in bf16.
  const std::int64_t each = 4 + std::int64_t(bytes) + (train.ema.decay > 0 ? 4 : 0);
  out.weight_bytes =
      double(out.model.parameters) * double(each) + double(trained) * double(moment_bytes(train.optimizer));
  out.gradient_bytes = 4 * double(trained);
  out.accumulate = train.accumulate;
  const double values = double(out.model.parameters) * (train.ema.decay > 0 ? 2 : 1);
  out.weights_bytes = 4 * values;
  out.checkpoint_bytes = out.weights_bytes + double(trained) * double(moment_bytes(train.optimizer));
  out.shard_bytes =
      double(bytes) * double(out.shards.images) * (stored_values(config.model) + double(out.model.inside_norms));
  const std::array<std::int64_t, 2>& size = image_size(config.model);
  out.batch_bytes = double(bytes) * double(train.batch_size * size[0] * size[1] * channels(config.model));
  return out;
}

TrialCost trial_cost(const TrialConfig& config) { return trial_cost(config, known_slice_sizes(config.dataset)); }

double default_gflops(Precision precision) { return precision == Precision::bf16 ? 300 : 200; }

}  // namespace normlab
