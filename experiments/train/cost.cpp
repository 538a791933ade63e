#include "experiments/train/cost.h"

#include <algorithm>
#include <cmath>

#include "core/visible_text.h"
#include "experiments/data/slice.h"
#include "experiments/descriptor/conditions.h"
#include "experiments/train/trial.h"

namespace normlab {
namespace {

std::optional<std::int64_t> known_images(const DatasetConfig& dataset, const std::string& text) {
  const Slice slice = parse_slice(text);
  const bool train = slice.split == "train";
  std::int64_t images = train ? dataset.train_images : dataset.eval_images;
  if (dataset.name != "shapes") {
    const KnownDataset* known = find_dataset(dataset.name);
    if (known == nullptr) return std::nullopt;
    images = train ? known->train_images : known->eval_images;
  }
  if (images == 0) return std::nullopt;
  const auto at = [&](const std::optional<SliceBound>& bound, std::int64_t otherwise) {
    if (!bound) return otherwise;
    return bound->percent ? images * bound->value / 100 : bound->value;
  };
  const std::int64_t begin = at(slice.begin, 0), end = at(slice.end, images);
  if (end > images || begin >= end)
    throw InputError(concat("dataset ", in_quotes(dataset.name), ": the slice ", in_quotes(text), " does not fit its ",
                            images, " images"));
  return end - begin;
}

/// Values that one block keeps for its backward, of one image: inputs and outputs of its norms and linears, and the
/// attention weights.
double block_values(std::int64_t tokens, std::int64_t width, std::int64_t mlp, std::int64_t heads,
                    std::int64_t attended) {
  return double(tokens) * (9 * double(width) + 2 * double(mlp) + double(heads) * double(attended));
}
double kept_values(const ViTConfig& c) {
  return double(c.depth) * block_values(c.tokens(), c.embed_dim, c.mlp_dim, c.num_heads, c.tokens()) +
         double(c.patches()) * double(c.patch_pixels() + 2 * c.embed_dim);
}
double kept_values(const SwinConfig& c) {
  double sum = 0;
  for (const SwinStage& s : swin_stages(c))
    sum += double(s.depth) * block_values(s.padded_tokens(), s.embed_dim, s.mlp_dim, s.num_heads, s.window * s.window) +
           6 * double(s.tokens()) * double(s.embed_dim);
  return sum;
}

}  // namespace

std::optional<std::int64_t> known_training_images(const DatasetConfig& dataset) {
  const std::optional<std::int64_t> slice = known_images(dataset, dataset.train);
  if (!slice) return std::nullopt;
  std::int64_t images = *slice;
  if (dataset.per_class > 0) {
    const KnownDataset* known = find_dataset(dataset.name);
    images = std::min(images, dataset.per_class * known->num_classes);
  }
  return std::max<std::int64_t>(1, std::llround(dataset.fraction * double(images)));
}

std::optional<std::int64_t> known_evaluation_images(const DatasetConfig& dataset) {
  return known_images(dataset, dataset.eval);
}

std::optional<std::int64_t> known_minival_images(const DatasetConfig& dataset) {
  return dataset.minival.empty() ? 0 : known_images(dataset, dataset.minival);
}

TrialCost trial_cost(const TrialConfig& config) {
  const TrainConfig& train = config.train;
  const std::size_t bytes = size_of(dtype_of(train.precision));
  TrialCost out;
  out.model = model_cost(config.model);
  out.shards =
      plan_shards(config.model, train.batch_size / train.accumulate, out.model.parameters, std::int64_t(bytes));
  out.train_images = known_training_images(config.dataset);
  if (out.train_images) {
    out.steps = count_steps(train, *out.train_images);
    out.images = double(out.steps->total) * double(std::min(train.batch_size, *out.train_images));
    out.training_flops = 6 * double(out.model.macs) * out.images;
    const std::optional<std::int64_t> eval = known_evaluation_images(config.dataset);
    const std::optional<std::int64_t> minival = known_minival_images(config.dataset);
    const std::int64_t every = out.steps->eval_every, total = out.steps->total;
    const std::int64_t evaluations = every == 0 ? 1 : (total + every - 1) / every;
    const double rounds = double(evaluations) * (train.ema.decay > 0 ? 2 : 1);  // the averages as well
    if (eval && minival) out.evaluation_flops = 2 * double(out.model.macs) * double(*eval + *minival) * rounds;
  }
  // Weights and gradients in float, as many gradients as lanes; in bf16 a copy of the weights.
  const std::int64_t each = 4 * (1 + out.shards.lanes) + moment_bytes(engine_settings(config).optimizer) +
                            (bytes == 2 ? 2 : 0) + (train.ema.decay > 0 ? 4 : 0);
  out.state_bytes = double(out.model.parameters) * double(each);
  const double values = double(out.model.parameters) * (train.ema.decay > 0 ? 2 : 1);
  out.weights_bytes = 4 * values;
  out.checkpoint_bytes =
      out.weights_bytes + double(out.model.parameters) * double(moment_bytes(engine_settings(config).optimizer));
  out.shard_bytes = double(bytes) * double(out.shards.images) *
                    std::visit([](const auto& c) { return kept_values(c); }, config.model);
  const std::array<std::int64_t, 2>& size = image_size(config.model);
  out.batch_bytes = double(bytes) * double(train.batch_size * size[0] * size[1] * channels(config.model));
  return out;
}

double default_gflops(Precision precision) { return precision == Precision::bf16 ? 300 : 200; }

}  // namespace normlab
