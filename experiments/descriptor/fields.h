// One table a struct: key, member, meaning, range. The reader, the defaults, the schema, the canonical form and the
// documentation all walk these tables, so a new setting is a new line here.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "experiments/descriptor/config.h"

namespace normlab {

/// Bounds of a number; an open bound is outside.
struct Range {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
};
inline constexpr Range kAnyNumber{}, kPositive{.low = 0, .low_open = true}, kNotNegative{.low = 0},
    kAtLeastOne{.low = 1};
inline constexpr Range kRate{.low = 0, .high = 1, .high_open = true};
inline constexpr Range kShare{.low = 0, .high = 1};

template <class T, class M>
struct Field {
  using Member = M;
  std::string_view key;
  M T::*member;
  std::string_view doc;
  Range range;
};
template <class T, class M>
constexpr Field<T, M> field(std::string_view key, M T::*member, std::string_view doc, Range range = {}) {
  return {key, member, doc, range};
}

/// The words of an enum, in the order of its values.
template <class E>
constexpr auto words_of() {
  using namespace std::string_view_literals;
  if constexpr (std::is_same_v<E, NormKind>) {
    std::array<std::string_view, std::size(kNormKinds)> words;
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = kNormKinds[i].word;
    return words;
  } else if constexpr (std::is_same_v<E, HeadScale>)
    return std::array{"none"sv, "before_proj"sv, "after_proj"sv};
  else if constexpr (std::is_same_v<E, LayerScaleKind>)
    return std::array{"none"sv, "channel"sv, "scalar"sv};
  else if constexpr (std::is_same_v<E, ModelKind>)
    return std::array{"vit"sv, "swin"sv};
  else if constexpr (std::is_same_v<E, Pool>)
    return std::array{"token"sv, "gap"sv};
  else if constexpr (std::is_same_v<E, PosEmbed>)
    return std::array{"learned"sv, "sincos2d"sv};
  else if constexpr (std::is_same_v<E, Gelu>)
    return std::array{"erf"sv, "tanh"sv};
  else if constexpr (std::is_same_v<E, Init>)
    return std::array{"big_vision"sv, "timm"sv, "torch"sv, "timm_jax"sv, "deit"sv};
  else if constexpr (std::is_same_v<E, DatasetLayout>)
    return std::array{"known"sv, "webdataset"sv, "cifar"sv};
  else if constexpr (std::is_same_v<E, OptimizerName>)
    return std::array{"adamw"sv, "sgd"sv};
  else if constexpr (std::is_same_v<E, ScheduleName>)
    return std::array{"constant"sv, "linear"sv, "cosine"sv};
  else if constexpr (std::is_same_v<E, LossName>)
    return std::array{"softmax"sv, "sigmoid"sv};
  else if constexpr (std::is_same_v<E, Precision>)
    return std::array{"fp32"sv, "bf16"sv, "bf16_emulated"sv};
}

template <class E>
std::string_view word_of(E value) {
  return words_of<E>()[std::size_t(value)];
}

template <class T>
constexpr auto fields() {
  if constexpr (std::is_same_v<T, NormSpec>)
    return std::tuple{
        field("kind", &T::kind, "which norm"),
        field("eps", &T::eps, "added under the root; 1e-6, for batch_norm 1e-5", kPositive),
        field("momentum", &T::momentum, "batch_norm: weight of the new value in the running statistics", kShare),
        field("statistics_batch", &T::statistics_batch,
              "batch_norm: images a statistic is taken over; 0 is the whole batch", kNotNegative),
        field("alpha_init", &T::alpha_init, "dyt: start value of alpha"),
        field("beta_init", &T::beta_init, "dyt: start value of beta")};
  else if constexpr (std::is_same_v<T, StemSites>)
    return std::tuple{field("patch_in", &T::patch_in, "sees the flattened patch"),
                      field("patch_out", &T::patch_out, "sees the embedding"),
                      field("posembed_out", &T::posembed_out, "sees the tokens after positions were added"),
                      field("posembed_out_includes_class", &T::posembed_out_includes_class,
                            "the class token passes posembed_out too")};
  else if constexpr (std::is_same_v<T, AttentionSites>)
    return std::tuple{field("pre", &T::pre, "before the branch"),
                      field("query", &T::query, "on each query head"),
                      field("key", &T::key, "on each key head"),
                      field("value", &T::value, "on the values of all heads"),
                      field("inner", &T::inner, "heads joined, before the output projection"),
                      field("out", &T::out, "end of the branch, before the sum"),
                      field("post", &T::post, "after the sum")};
  else if constexpr (std::is_same_v<T, MlpSites>)
    return std::tuple{field("pre", &T::pre, "before the branch"), field("hidden", &T::hidden, "before the activation"),
                      field("inner", &T::inner, "after the activation"),
                      field("out", &T::out, "end of the branch, before the sum"),
                      field("post", &T::post, "after the sum")};
  else if constexpr (std::is_same_v<T, BlockRange>)  // its blocks are the key under which it stands
    return std::tuple{field("attn", &T::attn, "sites of the attention branch, changes on top of the row's"),
                      field("mlp", &T::mlp, "sites of the MLP branch, changes on top of the row's")};
  else if constexpr (std::is_same_v<T, LayerScale>)  // `init` is a number or "auto", which the reader knows by itself
    return std::tuple{field("kind", &T::kind, "a gain a channel, or one scalar a branch")};
  else if constexpr (std::is_same_v<T, Placement>)  // "blocks" needs the other sites: the reader knows it by itself
    return std::tuple{
        field("stem", &T::stem, "sites of the stem"),
        field("attn", &T::attn, "sites of the attention branch"),
        field("mlp", &T::mlp, "sites of the MLP branch"),
        field("merge", &T::merge, "patch merging, Swin only"),
        field("final", &T::final, "all tokens, before pooling"),
        field("pooled", &T::pooled, "the pooled vector"),
        field("head_scale", &T::head_scale, "a learned gain a head"),
        field("residual_scale", &T::residual_scale, "a learned gain a channel on the shortcut of the MLP"),
        field("layer_scale", &T::layer_scale, "a learned gain on both branches"),
        field("init_gain", &T::init_gain,
              "multiplies the drawn values of v, out, fc1 and fc2; a number or \"sub_ln\"")};
  else if constexpr (std::is_same_v<T, ViTConfig>)
    return std::tuple{
        field("image_size", &T::image_size, "pixels, or [height, width]; the dataset's when left out"),
        field("channels", &T::channels, "the dataset's when left out"),
        field("patch_size", &T::patch_size, "pixels a side"),
        field("embed_dim", &T::embed_dim, "width"),
        field("depth", &T::depth, "blocks"),
        field("num_heads", &T::num_heads, "attention heads"),
        field("mlp_dim", &T::mlp_dim, "width of the hidden layer; 4 embed_dim when left out"),
        field("num_classes", &T::num_classes, "the dataset's when left out"),
        field("pool", &T::pool, "class token, or mean over tokens"),
        field("pos_embed", &T::pos_embed, "positions"),
        field("pos_embed_class", &T::pos_embed_class, "pool token, learned: the class token has a position"),
        field("distill_token", &T::distill_token,
              "pool token: DeiT's second token, with a head of its own; logits are the mean of both heads"),
        field("qkv_bias", &T::qkv_bias, "query, key and value have biases"),
        field("rep_size", &T::rep_size, "width of a dense + tanh layer before the head; 0 leaves it out"),
        field("gelu", &T::gelu, "form of the GELU"),
        field("dropout", &T::dropout, "after the stem, both branches and the hidden layer"),
        field("attention_dropout", &T::attention_dropout, "on the attention weights"),
        field("drop_path", &T::drop_path, "rate of the last block, growing linearly from 0 at the first"),
        field("init", &T::init, "initial values as in this code base; timm_jax: timm's weight_init \"jax\""),
        field("head_bias_init", &T::head_bias_init, "start value of the head's bias"),
        field("placement", &T::placement, "a row's name, or sites")};
  else if constexpr (std::is_same_v<T, SwinConfig>)
    return std::tuple{field("image_size", &T::image_size, "pixels, or [height, width]; the dataset's when left out"),
                      field("channels", &T::channels, "the dataset's when left out"),
                      field("patch_size", &T::patch_size, "pixels a side"),
                      field("window", &T::window, "tokens a side; at most the shorter side of a stage"),
                      field("embed_dim", &T::embed_dim, "width of the first stage, doubling with each"),
                      field("depths", &T::depths, "blocks of each stage"),
                      field("num_heads", &T::num_heads, "attention heads of each stage"),
                      field("mlp_ratio", &T::mlp_ratio, "width of the hidden layer over that of the stage"),
                      field("num_classes", &T::num_classes, "the dataset's when left out"),
                      field("qkv_bias", &T::qkv_bias, "query, key and value have biases"),
                      field("reduction_bias", &T::reduction_bias, "the linear of patch merging has a bias"),
                      field("gelu", &T::gelu, "form of the GELU"),
                      field("dropout", &T::dropout, "after the stem, both branches and the hidden layer"),
                      field("attention_dropout", &T::attention_dropout, "on the attention weights"),
                      field("drop_path", &T::drop_path, "rate of the last block, growing linearly from 0 at the first"),
                      field("head_bias_init", &T::head_bias_init, "start value of the head's bias"),
                      field("placement", &T::placement, "a row's name, or sites")};
  else if constexpr (std::is_same_v<T, DatasetConfig>)
    return std::tuple{field("name", &T::name, "shapes, cifar10, or a label for `path`"),
                      field("path", &T::path, "folder below the data root; the name when left out"),
                      field("layout", &T::layout, "how the files lie; known: by the name"),
                      field("train", &T::train, "slice to train on, as \"train[:99%]\""),
                      field("eval", &T::eval, "slice to evaluate on"),
                      field("allow_absent_classes", &T::allow_absent_classes, "a training slice may lack a class"),
                      field("train_images", &T::train_images, "shapes: training images to generate", kAtLeastOne),
                      field("eval_images", &T::eval_images, "shapes: test images to generate", kAtLeastOne),
                      field("shapes_seed", &T::shapes_seed, "shapes: seed of the images, not of the trial")};
  else if constexpr (std::is_same_v<T, AugmentConfig>)
    return std::tuple{
        field("crop_padding", &T::crop_padding, "zeros around the image before a random crop", kNotNegative),
        field("flip", &T::flip, "left-right, probability one half")};
  else if constexpr (std::is_same_v<T, OptimizerConfig>)
    return std::tuple{
        field("name", &T::name, "which optimiser"),
        field("lr", &T::lr, "peak learning rate", kNotNegative),
        field("weight_decay", &T::weight_decay, "times the rate for adamw, added to the gradient for sgd",
              kNotNegative),
        field("decay_matrices_only", &T::decay_matrices_only, "no decay on biases, gains, tokens, positions"),
        field("beta1", &T::beta1, "adamw", kRate),
        field("beta2", &T::beta2, "adamw", kRate),
        field("eps", &T::eps, "adamw", kPositive),
        field("momentum", &T::momentum, "sgd", kRate),
        field("nesterov", &T::nesterov, "sgd")};
  else if constexpr (std::is_same_v<T, ScheduleConfig>)
    return std::tuple{field("name", &T::name, "shape after the warm-up"),
                      field("warmup_epochs", &T::warmup_epochs, "linear warm-up; this or warmup_steps", kNotNegative),
                      field("warmup_steps", &T::warmup_steps, "linear warm-up; this or warmup_epochs", kNotNegative),
                      field("final_lr", &T::final_lr, "linear, cosine: rate at the end", kNotNegative)};
  else if constexpr (std::is_same_v<T, CheckpointConfig>)
    return std::tuple{field("seconds", &T::seconds, "of training between two checkpoints", kPositive),
                      field("steps", &T::steps, "and after so many steps; 0: by time alone", kNotNegative)};
  else if constexpr (std::is_same_v<T, TrainConfig>)
    return std::tuple{
        field("epochs", &T::epochs, "length of the training; this or steps", kPositive),
        field("steps", &T::steps, "length of the training; this or epochs", kNotNegative),
        field("batch_size", &T::batch_size, "images a step", kAtLeastOne),
        field("drop_last", &T::drop_last, "leave out an epoch's last, smaller batch"),
        field("optimizer", &T::optimizer, "the optimiser"),
        field("schedule", &T::schedule, "the learning rate over time"),
        field("clip_norm", &T::clip_norm, "largest global norm of the gradient; 0: no clipping", kNotNegative),
        field("loss", &T::loss, "cross-entropy over a softmax, or a sigmoid a class"),
        field("label_smoothing", &T::label_smoothing, "spread over all classes", kRate),
        field("augment", &T::augment, "done to every training image"),
        field("precision", &T::precision,
              "of activations and products; weights are kept in float. bf16 needs a CPU (or GPU) with instructions for "
              "it; "
              "bf16_emulated rounds at the same places on every CPU, slowly"),
        field("eval_every_epochs", &T::eval_every_epochs, "0: only at the end", kNotNegative)};
  else if constexpr (std::is_same_v<T, TrialConfig>)
    return std::tuple{field("dataset", &T::dataset, "a name, or an object"), field("model", &T::model, "the network"),
                      field("train", &T::train, "the training"), field("seed", &T::seed, "of all random draws")};
}

/// Calls `see(field)` for each line of the table.
template <class T, class Visitor>
void for_each_field(Visitor&& see) {
  std::apply([&](const auto&... each) { (see(each), ...); }, fields<T>());
}

// --- Which settings mean something, given the others. One that does not is refused by the reader unless another trial
// of the same descriptor uses it, is set to its default, and is left out of both written forms.

template <class T>
bool applies(const T&, std::string_view) {
  return true;
}
inline bool applies(const NormSpec& spec, std::string_view key) {
  if (key == "kind") return true;
  for (std::string_view rest = parts_of(spec.kind).settings; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == key) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}
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
  return shapes || (key != "train_images" && key != "eval_images" && key != "shapes_seed");
}
inline bool applies(const OptimizerConfig& optimizer, std::string_view key) {
  const bool adamw = optimizer.name == OptimizerName::adamw;
  if (key == "beta1" || key == "beta2" || key == "eps") return adamw;
  return !adamw || (key != "momentum" && key != "nesterov");
}
inline bool applies(const ScheduleConfig& schedule, std::string_view key) {
  if (key == "warmup_epochs") return schedule.warmup_steps == 0;
  return key != "final_lr" || schedule.name != ScheduleName::constant;
}
inline bool applies(const TrainConfig& train, std::string_view key) { return key != "epochs" || train.steps == 0; }

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
  std::array<std::int64_t, 2> image_size;
  std::int64_t channels, num_classes;
};
inline constexpr KnownDataset kKnownDatasets[] = {{"shapes", {32, 32}, 3, 10}, {"cifar10", {32, 32}, 3, 10}};
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
                                           {"train.schedule", "warmup_epochs", "warmup_steps"}};

/// Other keys at a descriptor's top level than those of TrialConfig.
struct TopLevelKey {
  std::string_view key, type, doc;
};
inline constexpr TopLevelKey kTopLevelKeys[] = {
    {"$schema", "string", "for editors; the file `normlab schema` wrote"},
    {"about", "string", "question, cost and, once measured, the outcome"},
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
    {"seeds", "number or list", "n for 0 to n - 1, or the seeds themselves; 1 when left out"},
    {"baseline", "object", "the axis values that gains are measured against"},
};

inline constexpr std::int64_t kConfigSchema = 1;  // raised whenever a default or a meaning changes

}  // namespace normlab
