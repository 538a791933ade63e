// Which settings mean something beside the others, and what one is when it is left out.
#pragma once

#include <array>
#include <string_view>

#include "experiments/descriptor/config.h"

namespace normlab {

// --- Which settings mean something, given the others. One that does not is refused by the reader unless another trial
// of the same descriptor uses it, is set to its default, and is left out of both written forms.

template <class T>
bool applies(const T&, std::string_view) {
  return true;
}
bool applies(const NormSpec& spec, std::string_view key);  // by the row of its kind; in fields.h
inline bool applies(const StemSites& stem, std::string_view key) {
  return key != "posembed_out_includes_class" || stem.posembed_out.kind != NormKind::none;
}
inline bool applies(const ViTConfig& model, std::string_view key) {
  if (key == "distill_token") return model.pool == Pool::token;
  return key != "pos_embed_class" || (model.pool == Pool::token && model.pos_embed == PosEmbed::learned);
}
inline bool applies(const DatasetConfig& dataset, std::string_view key) {
  const bool shapes = dataset.name == "shapes";
  if (key == "path" || key == "layout") return !shapes;
  if (key == "train_shards" || key == "eval_shards") return dataset.layout == DatasetLayout::webdataset;
  if (key == "labels")
    return dataset.layout == DatasetLayout::image_list || dataset.layout == DatasetLayout::image_folder;
  if (key == "order")
    return dataset.layout == DatasetLayout::webdataset || (dataset.layout == DatasetLayout::known && !shapes);
  if (key == "on_bad_image")  // the others have no images in files of their own
    return !shapes && dataset.layout != DatasetLayout::cifar && dataset.layout != DatasetLayout::idx;
  if (key == "subset_seed") return dataset.per_class > 0 || dataset.fraction < 1;
  if (key == "shuffle_buffer") return dataset.order == SampleOrder::shards;
  return shapes || (key != "train_images" && key != "eval_images" && key != "shapes_seed");
}
inline bool applies(const RandAugmentConfig& c, std::string_view key) {
  using Dialect = RandAugmentDialect;
  if (key == "dialect") return true;
  if (key == "magnitude_std" || key == "probability" || key == "increasing") return c.dialect == Dialect::timm;
  if (key == "repaired") return c.dialect == Dialect::big_vision;
  if (key == "interpolation") return c.dialect == Dialect::torchvision || c.dialect == Dialect::timm;
  return c.dialect != Dialect::none;
}
inline bool applies(const ErasingConfig& c, std::string_view key) {
  if (key == "dialect") return true;
  return c.dialect != ErasingDialect::none && (key != "value" || c.fill == ErasingFill::constant);
}
inline bool applies(const MixConfig& c, std::string_view key) {
  if (key == "mixup" || key == "cutmix") return true;
  if (key == "switch_probability") return c.mixup > 0 && c.cutmix > 0;
  return c.mixup > 0 || c.cutmix > 0;
}
inline bool applies(const AugmentConfig& c, std::string_view key) {
  const bool inception = c.crop == CropName::inception_tensorflow || c.crop == CropName::inception_torchvision;
  if (key == "crop_area" || key == "crop_aspect") return inception;
  return key != "resize" || c.crop != CropName::none;
}
inline bool applies(const EvalTransformConfig& c, std::string_view key) {
  if (key == "crop") return true;
  if (key == "crop_pct") return c.crop == EvalCrop::center && c.resize_to == 0;
  if (key == "resize_to" || key == "rounding") return c.crop == EvalCrop::center;
  return c.crop != EvalCrop::none;
}
inline bool applies(const OptimizerConfig& c, std::string_view key) {
  const bool sgd = c.name == OptimizerName::sgd, momentum = c.name == OptimizerName::momentum_hp;
  const bool big_vision = momentum || c.name == OptimizerName::big_vision_adam;
  if (key == "beta1" || key == "beta2") return !sgd && !momentum;
  if (key == "eps") return !sgd && !momentum && c.name != OptimizerName::lion;
  if (key == "momentum" || key == "nesterov") return sgd || momentum;
  if (key == "bf16_moment") return big_vision;
  return key != "moment_product" || (big_vision && c.bf16_moment);
}
inline bool applies(const ScheduleConfig& c, std::string_view key) {
  const bool compound = c.name == ScheduleName::compound;
  const auto is = [&](ScheduleName name, std::string_view factor) {
    return c.name == name || (compound && has_factor(c.factors, factor));
  };
  const bool warms_up = !compound || has_factor(c.factors, "linear_warmup");
  if (key == "warmup_steps") return warms_up;
  if (key == "warmup_epochs") return warms_up && c.warmup_steps == 0;
  if (key == "warmup") return warms_up && (c.warmup_steps > 0 || c.warmup_epochs > 0);
  if (key == "warmup_from") return c.warmup == Warmup::line && applies(c, "warmup");
  if (key == "decay_from")
    return (c.warmup_steps > 0 || c.warmup_epochs > 0) && !compound && c.name != ScheduleName::constant &&
           c.name != ScheduleName::rsqrt;
  if (key == "power") return is(ScheduleName::polynomial, "polynomial");
  if (key == "timescale") return is(ScheduleName::rsqrt, "rsqrt_decay");
  if (key == "shift") return c.name == ScheduleName::rsqrt;
  if (key == "factors") return compound;
  if (key == "decay_every" || key == "decay_factor") return compound && has_factor(c.factors, "decay_every");
  if (key == "cooldown_steps") return !compound || has_factor(c.factors, "linear_cooldown");
  if (key == "final_lr")
    return compound ? is(ScheduleName::polynomial, "polynomial") || is(ScheduleName::cosine, "cosine_decay") ||
                          is(ScheduleName::linear, "linear_decay")
                    : c.name != ScheduleName::constant;
  return true;
}
inline bool applies(const EarlyStopConfig& c, std::string_view key) { return key == "metric" || !c.metric.empty(); }
inline bool applies(const EmaConfig& c, std::string_view key) { return key == "decay" || c.decay > 0; }
inline bool applies(const TrainConfig& c, std::string_view key) {
  if (key == "epochs") return c.steps == 0 && c.images == 0;
  if (key == "steps") return c.images == 0;
  if (key == "clip_form") return c.clip_norm > 0;
  return key != "smoothing" || c.label_smoothing > 0;
}

/// The value a setting has when it is left out, given the others of the same struct.
template <class T>
T defaults_beside(const T&) {
  return {};
}
inline NormSpec defaults_beside(const NormSpec& spec) { return norm_of(spec.kind); }
inline ViTConfig defaults_beside(const ViTConfig& model) {
  ViTConfig out;
  out.mlp_dim = std::int64_t(4 * std::uint64_t(model.embed_dim));  // a hostile width wraps and is refused later
  return out;
}

/// What is known of a dataset by its name.
struct KnownDataset {
  std::string_view name;
  std::array<std::int64_t, 2> image_size;  // 0: images of many sizes
  std::int64_t channels, num_classes;
  std::int64_t train_images = 0, eval_images = 0;  // 0: the descriptor says how many
};
inline constexpr KnownDataset kKnownDatasets[] = {{"shapes", {32, 32}, 3, 10},
                                                  {"cifar10", {32, 32}, 3, 10, 50'000, 10'000},
                                                  {"cifar100", {32, 32}, 3, 100, 50'000, 10'000},
                                                  {"mnist", {28, 28}, 1, 10, 60'000, 10'000},
                                                  {"fashion_mnist", {28, 28}, 1, 10, 60'000, 10'000},
                                                  {"kmnist", {28, 28}, 1, 10, 60'000, 10'000},
                                                  {"tiny-imagenet-200", {64, 64}, 3, 200, 100'000, 10'000},
                                                  {"imagenet", {0, 0}, 3, 1000, 1'281'167, 50'000},
                                                  {"sun397", {0, 0}, 3, 397, 76'128, 21'750}};
inline const KnownDataset* find_dataset(std::string_view name) {
  for (const KnownDataset& dataset : kKnownDatasets)
    if (dataset.name == name) return &dataset;
  return nullptr;
}

/// Sizes that a ViT's `variant` stands for; the patch size follows a slash, as in "S/16". "DeiT-S/16" is the same with
/// a class token that has a position. Those of Swin are in nn/swin_config.h.
struct Variant {
  std::string_view name;
  std::int64_t embed_dim, depth, num_heads;
};
inline constexpr Variant kVariants[] = {{"Ti", 192, 12, 3}, {"S", 384, 12, 6}, {"B", 768, 12, 12}, {"L", 1024, 24, 16}};

/// The key of a placement that gives blocks sites of their own.
inline constexpr std::string_view
    kBlocksKey = "blocks",
    kOtherBlocks = "rest",
    kBlocksDoc = "sites of some blocks: {\"0-3\": {\"attn\": {...}, \"mlp\": {...}}, \"rest\": {...}}";

/// Pairs of settings that say the same thing twice: the one given later (a child descriptor, `--set`, an axis) replaces
/// the other; both in one object are an error.
struct Exclusive {
  std::string_view object, a, b;
};
inline constexpr Exclusive kExclusive[] = {{"train", "epochs", "steps"},
                                           {"train", "epochs", "images"},
                                           {"train", "steps", "images"},
                                           {"train.schedule", "warmup_epochs", "warmup_steps"},
                                           {"dataset", "per_class", "fraction"}};

/// Other keys at a descriptor's top level than those of TrialConfig.
struct TopLevelKey {
  std::string_view key, type, doc;
};
inline constexpr TopLevelKey kTopLevelKeys[] = {
    {"$schema", "string", "for editors; the file `normlab schema` wrote"},
    {"about", "string", "question, cost and, once measured, the outcome"},
    {"paper", "object",
     "\"source\", and \"deviations\": what is knowingly not as published, as {\"key\", \"paper\", \"here\", \"why\"}; "
     "a list "
     "replaces that of the base; changes no result"},
    {"extends", "string", "another descriptor, relative to this file; keys given here win"},
    {"checkpoint", "object", "how often a running trial is saved; changes no result"},
    {"probes", "object",
     "steps before whose update something is measured, 0 the first: \"signal\", a list; \"gradients\", a list or a "
     "number n for every n-th; changes no result"},
    {"placements", "object", "rows of one's own, by name"},
    {"sweep", "object or list",
     "axes of a grid (\"path\": [values]; \"a,b\": [[1, 2], [3, 4]] moves two together), or a "
     "list of grids, each of which may have its own \"seeds\""},
    {"exclude", "list", "combinations to leave out, as {\"axis\": value}"},
    {"tune", "list",
     "stages that choose values for each row before it is trained and shown: {\"axes\": as in \"sweep\", \"dataset\" "
     "with "
     "an \"eval\" slice of training images, \"train\": settings of these trials alone, \"seeds\": 1, \"metric\": "
     "\"eval/accuracy\"}"},
    {"tuned_for", "object", "the axis values of the row for which the settings that all rows share were chosen"},
    {"seeds", "number, list or object",
     "n for 0 to n - 1, or the seeds themselves; 1 when left out; {\"first\", \"max\", \"gain_halfwidth\"}: as many "
     "as gains need"},
    {"baseline", "object", "the axis values that gains are measured against"},
};

inline constexpr std::int64_t kConfigSchema = 1;  // raised whenever a default or a meaning changes

}  // namespace normlab
