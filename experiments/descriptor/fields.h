// One table a struct: key, member, meaning, range. The reader, the defaults, the schema, the canonical form and the
// documentation all walk these tables, so a new setting is a new line here.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "experiments/descriptor/conditions.h"
#include "experiments/descriptor/config.h"
#include "experiments/descriptor/words.h"

namespace normlab {

/// Bounds of a number; an open bound is outside.
struct Range {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
  /// Bounds that only a descriptor must keep: results of earlier versions may state what is beyond them.
  bool of_descriptors = false;
  std::string_view why_high{};  // for errors
};
inline constexpr Range kPositive{.low = 0, .low_open = true}, kNotNegative{.low = 0};
inline constexpr Range kRate{.low = 0, .high = 1, .high_open = true};
inline constexpr Range kShare{.low = 0, .high = 1}, kOpenShare{.low = 0, .high = 1, .low_open = true},
    kHalf{.low = 0, .high = 0.5}, kPixel{.low = 0, .high = 255};
// Whole numbers end where sums and products of them still fit 64 bits; steps of a year at a microsecond each are fewer.
inline constexpr double kMostCounted = 1LL << 50, kMostAtOnce = 1 << 24, kMostPixels = 1 << 16;
inline constexpr Range kFromZero{.low = 0, .high = kMostCounted}, kFromOne{.low = 1, .high = kMostCounted},
    kAtOnce{.low = 1, .high = kMostAtOnce}, kSide{.low = 0, .high = kMostPixels}, kGenerated{.low = 1, .high = 1e6},
    kLayers{.low = 0, .high = 100};
inline constexpr Range kLength{.low = 1, .high = kMostCounted, .of_descriptors = true};
inline constexpr Range kEpochs{.low = 0, .high = 1e9, .of_descriptors = true},
    kTrainedEpochs{.low = 0, .high = 1e9, .low_open = true, .of_descriptors = true};
inline constexpr std::string_view kUnit = "a pixel of 255 is 1 here: divide by 255";
inline constexpr Range kMean{.low = 0, .high = 1, .of_descriptors = true, .why_high = kUnit},
    kDeviation{.low = 0, .high = 1, .low_open = true, .of_descriptors = true, .why_high = kUnit};
inline constexpr Range kBeta{
    .low = 0, .high = 1e6, .of_descriptors = true, .why_high = "with so large a parameter every lambda is one half"};

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

/// The rows of kSites whose norms T holds.
template <class T>
constexpr auto site_fields() {
  constexpr auto holds = [](const SiteRow& row) { return std::holds_alternative<NormSpec T::*>(row.member); };
  std::array<Field<T, NormSpec>, std::size_t(std::count_if(kSites.begin(), kSites.end(), holds))> out{};
  auto next = out.begin();
  for (const SiteRow& row : kSites)
    if (holds(row))
      *next++ = field(row.path.substr(row.path.rfind('.') + 1), std::get<NormSpec T::*>(row.member), row.doc);
  return out;
}

template <class T>
constexpr auto fields() {
  if constexpr (std::is_same_v<T, NormSpec>)
    return std::tuple{
        field("kind", &T::kind, "which norm"),
        field("eps", &T::eps, "added under the root; 1e-6, for batch_norm and group_norm 1e-5", kPositive),
        field("momentum", &T::momentum, "batch_norm: weight of the new value in the running statistics", kShare),
        field("statistics_batch", &T::statistics_batch,
              "batch_norm: images a statistic is taken over; 0 is the whole batch", kFromZero),
        field("alpha_init", &T::alpha_init, "dyt: start value of alpha"),
        field("beta_init", &T::beta_init, "dyt: start value of beta"),
        field("groups", &T::groups, "group_norm: groups of neighbouring channels; they divide the site's width",
              kFromOne)};
  else if constexpr (std::is_same_v<T, StemSites>)
    return std::tuple_cat(site_fields<T>(),
                          std::tuple{field("posembed_out_includes_class", &T::posembed_out_includes_class,
                                           "the class token passes posembed_out too")});
  else if constexpr (std::is_same_v<T, AttentionSites> || std::is_same_v<T, MlpSites>)
    return site_fields<T>();
  else if constexpr (std::is_same_v<T, BlockRange>)  // its blocks are the key under which it stands
    return std::tuple{field("attn", &T::attn, "sites of the attention branch, changes on top of the row's"),
                      field("mlp", &T::mlp, "sites of the MLP branch, changes on top of the row's")};
  else if constexpr (std::is_same_v<T, LayerScale>)  // `init` is a number or "auto", which the reader knows by itself
    return std::tuple{field("kind", &T::kind, "a gain a channel, or one scalar a branch")};
  else if constexpr (std::is_same_v<T, Placement>)  // "blocks" needs the other sites: the reader knows it by itself
    return std::tuple_cat(
        std::tuple{field("stem", &T::stem, "sites of the stem"),
                   field("attn", &T::attn, "sites of the attention branch"),
                   field("mlp", &T::mlp, "sites of the MLP branch")},
        site_fields<T>(),
        std::tuple{field("head_scale", &T::head_scale, "a learned gain a head"),
                   field("residual_scale", &T::residual_scale, "a learned gain a channel on the shortcut of the MLP"),
                   field("layer_scale", &T::layer_scale, "a learned gain on both branches"),
                   field("init_gain", &T::init_gain,
                         "multiplies the drawn values of v, out, fc1 and fc2; a number or \"sub_ln\"")});
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
        field("dropout", &T::dropout, "after the stem, both branches and the hidden layer", kRate),
        field("attention_dropout", &T::attention_dropout, "on the attention weights", kRate),
        field("drop_path", &T::drop_path, "rate of the last block, growing linearly from 0 at the first", kRate),
        field("init", &T::init, "initial values as in this code base; timm_jax: timm's weight_init \"jax\""),
        field("head_bias_init", &T::head_bias_init, "start value of the head's bias"),
        field("placement", &T::placement, "a row's name, or sites")};
  else if constexpr (std::is_same_v<T, SwinConfig>)
    return std::tuple{
        field("image_size", &T::image_size, "pixels, or [height, width]; the dataset's when left out"),
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
        field("dropout", &T::dropout, "after the stem, both branches and the hidden layer", kRate),
        field("attention_dropout", &T::attention_dropout, "on the attention weights", kRate),
        field("drop_path", &T::drop_path, "rate of the last block, growing linearly from 0 at the first", kRate),
        field("head_bias_init", &T::head_bias_init, "start value of the head's bias"),
        field("placement", &T::placement, "a row's name, or sites")};
  else if constexpr (std::is_same_v<T, DatasetConfig>)
    return std::tuple{
        field("name", &T::name, "shapes, cifar10, or another known set; or a label for `path`"),
        field("path", &T::path, "folder below the data root; the name when left out"),
        field("layout", &T::layout, "how the files lie; known: by the name"),
        field("train", &T::train, "slice to train on, as \"train[:99%]\""),
        field("eval", &T::eval, "slice to evaluate on"),
        field("minival", &T::minival,
              "a third slice, evaluated beside eval, to choose by; shares no image with the two; none when left out"),
        field("train_shards", &T::train_shards,
              "webdataset: file names, as \"pets-train-{0000..0146}.tar\"; by the split when left out"),
        field("eval_shards", &T::eval_shards, "webdataset: the same for evaluation"),
        field("labels", &T::labels, "image_list: the file of labels, below `path`"),
        field("per_class", &T::per_class, "training images of each class; 0: all", kFromZero),
        field("fraction", &T::fraction, "share of the training slice", kOpenShare),
        field("subset_seed", &T::subset_seed, "which images per_class and fraction take"),
        field("allow_absent_classes", &T::allow_absent_classes, "a training slice may lack a class"),
        field("order", &T::order, "over the whole slice, or shard by shard through a buffer"),
        field("shuffle_buffer", &T::shuffle_buffer, "order shards: samples the next one is drawn from", kFromOne),
        field("on_bad_image", &T::on_bad_image,
              "an image that cannot be decoded ends the trial, or is "
              "left out, named and counted"),
        field("mean", &T::mean, "of each channel, 255 being 1; the training slice's when left out", kMean),
        field("std", &T::std, "of each channel, 255 being 1; the training slice's when left out", kDeviation),
        field("train_images", &T::train_images, "shapes: training images to generate", kGenerated),
        field("eval_images", &T::eval_images, "shapes: test images to generate", kGenerated),
        field("shapes_seed", &T::shapes_seed, "shapes: seed of the images, not of the trial")};
  else if constexpr (std::is_same_v<T, AugmentConfig>)
    return std::tuple{
        field("crop_padding", &T::crop_padding, "zeros around the image before a random crop", kSide),
        field("crop", &T::crop, "how an image gets the model's size; none: it has it"),
        field("crop_area", &T::crop_area, "inception: least and largest share of the image", kOpenShare),
        field("crop_aspect", &T::crop_aspect, "inception: least and largest width over height", kPositive),
        field("resize", &T::resize, "how pixels between pixels come about"),
        field("flip", &T::flip, "left-right, probability one half"),
        field("randaugment", &T::randaugment, "drawn operations"),
        field("color_jitter", &T::color_jitter, "torchvision's, in drawn order"),
        field("erasing", &T::erasing, "a box is blanked, after normalisation"),
        field("mix", &T::mix, "two images of a batch made one"),
        field("repeats", &T::repeats, "times an image stands in an epoch's order (repeated augmentation)", kAtOnce)};
  else if constexpr (std::is_same_v<T, RandAugmentConfig>)
    return std::tuple{
        field("dialect", &T::dialect, "whose operations and levels"),
        field("layers", &T::layers, "operations an image", kLayers),
        field("magnitude", &T::magnitude, "big_vision, timm: out of 10; torchvision: index of 31", kNotNegative),
        field("magnitude_std", &T::magnitude_std, "timm: deviation of the drawn magnitude", kNotNegative),
        field("probability", &T::probability, "timm: that a drawn operation is applied", kShare),
        field("increasing", &T::increasing, "timm: inc1, a higher level always does more"),
        field("repaired", &T::repaired, "big_vision: Contrast and Solarize as meant, not as released"),
        field("interpolation", &T::interpolation, "torchvision, timm: of geometric operations"),
        field("fill", &T::fill, "beyond the image, a value a channel; the dialect's own when left out", kPixel)};
  else if constexpr (std::is_same_v<T, ColorJitterConfig>)
    return std::tuple{field("brightness", &T::brightness, "factor from 1 - x to 1 + x", kNotNegative),
                      field("contrast", &T::contrast, "factor from 1 - x to 1 + x", kNotNegative),
                      field("saturation", &T::saturation, "factor from 1 - x to 1 + x", kNotNegative),
                      field("hue", &T::hue, "shift from -x to x of the circle", kHalf)};
  else if constexpr (std::is_same_v<T, ErasingConfig>)
    return std::tuple{field("dialect", &T::dialect, "whose way to draw the box"),
                      field("probability", &T::probability, "that an image has a box", kShare),
                      field("fill", &T::fill, "one value, a normal draw a channel, or one a pixel"),
                      field("value", &T::value, "fill constant: after normalisation"),
                      field("area", &T::area, "least and largest share of the image", kOpenShare),
                      field("aspect", &T::aspect, "least and largest height over width", kPositive)};
  else if constexpr (std::is_same_v<T, MixConfig>)
    return std::tuple{field("mixup", &T::mixup, "parameter of the Beta distribution; 0: off", kBeta),
                      field("cutmix", &T::cutmix, "parameter of the Beta distribution; 0: off", kBeta),
                      field("dialect", &T::dialect, "whose partner and lambda"),
                      field("scope", &T::scope, "one lambda a batch, or one an image"),
                      field("probability", &T::probability, "that a batch (or image) is mixed", kShare),
                      field("switch_probability", &T::switch_probability, "both on: that it is cutmix", kShare)};
  else if constexpr (std::is_same_v<T, EvalTransformConfig>)
    return std::tuple{
        field("crop", &T::crop, "how an evaluation image gets the model's size; none: it has it"),
        field("crop_pct", &T::crop_pct, "center: the model's size over the resized shorter side", kOpenShare),
        field("resize_to", &T::resize_to, "center: pixels of the shorter side; 0: by crop_pct", kSide),
        field("resize", &T::resize, "how pixels between pixels come about"),
        field("rounding", &T::rounding, "of the longer side and of odd margins")};
  else if constexpr (std::is_same_v<T, Multiplier>)
    return std::tuple{field("name", &T::name, "parameters; `*` stands for any text"),
                      field("lr", &T::lr, "their rate is multiplied by it", kNotNegative),
                      field("weight_decay", &T::weight_decay, "their decay is multiplied by it", kNotNegative)};
  else if constexpr (std::is_same_v<T, EmaConfig>)
    return std::tuple{field("decay", &T::decay, "of the averaged weights; 0: none are kept", kRate),
                      field("every_steps", &T::every_steps, "steps between two averagings", kFromOne)};
  else if constexpr (std::is_same_v<T, OptimizerConfig>)
    return std::tuple{
        field("name", &T::name, "which optimiser"),
        field("lr", &T::lr, "peak learning rate", kNotNegative),
        field("lr_batch", &T::lr_batch,
              "lr (alone) is for so many images a step and scaled to batch_size; 0: lr as it is", kFromZero),
        field("weight_decay", &T::weight_decay,
              "times the rate for adamw, lamb and lion; added to the gradient for sgd; times the schedule alone for "
              "big_vision_adam and momentum_hp",
              kNotNegative),
        field("decay_matrices_only", &T::decay_matrices_only, "no decay on biases, gains, tokens, positions"),
        field("beta1", &T::beta1, "adamw, big_vision_adam, lamb, lion", kRate),
        field("beta2", &T::beta2, "adamw, big_vision_adam, lamb, lion", kRate),
        field("eps", &T::eps, "adamw, big_vision_adam, lamb", kPositive),
        field("momentum", &T::momentum, "sgd, momentum_hp", kRate),
        field("nesterov", &T::nesterov, "sgd, momentum_hp"),
        field("bf16_moment", &T::bf16_moment, "big_vision_adam, momentum_hp: the first moment is stored in bf16"),
        field("moment_product", &T::moment_product, "bf16_moment: how the decay times the moment is computed"),
        field("layer_decay", &T::layer_decay, "a block's rate is multiplied by it once for each block above it",
              kOpenShare),
        field("multipliers", &T::multipliers, "factors for the parameters whose names fit; the last that fits counts")};
  else if constexpr (std::is_same_v<T, ScheduleConfig>)
    return std::tuple{
        field("name", &T::name, "shape after the warm-up"),
        field("warmup_epochs", &T::warmup_epochs, "linear warm-up; this or warmup_steps", kEpochs),
        field("warmup_steps", &T::warmup_steps, "linear warm-up; this or warmup_epochs", kFromZero),
        field("warmup", &T::warmup, "lifted: lr (step + 1) / (warmup + 1); line: from warmup_from at step 0 to lr"),
        field("warmup_from", &T::warmup_from, "warmup line: rate of the first step", kNotNegative),
        field("decay_from", &T::decay_from,
              "linear, cosine, polynomial: begin at the warm-up's end, or at step 0 beside it (timm)"),
        field("final_lr", &T::final_lr, "linear, cosine, polynomial: rate at the end; rsqrt: the least rate",
              kNotNegative),
        field("power", &T::power, "polynomial", kPositive),
        field("timescale", &T::timescale, "rsqrt, rsqrt_decay: steps", kPositive),
        field("shift", &T::shift, "rsqrt: steps", kFromZero),
        field("cooldown_steps", &T::cooldown_steps, "at the end, a line down to 0", kFromZero),
        field("factors", &T::factors, "compound: as \"constant * polynomial * linear_warmup\""),
        field("decay_every", &T::decay_every, "compound, decay_every: steps between two multiplications", kFromOne),
        field("decay_factor", &T::decay_factor, "compound, decay_every: by what the rate is multiplied", kNotNegative)};
  else if constexpr (std::is_same_v<T, CheckpointConfig>)
    return std::tuple{
        field("seconds", &T::seconds, "of training between two checkpoints", kPositive),
        field("steps", &T::steps, "and after so many steps; 0: by time alone", kFromZero),
        field("keep", &T::keep, "once the result is there: the last checkpoint, its weights alone, or neither")};
  else if constexpr (std::is_same_v<T, EarlyStopConfig>)
    return std::tuple{
        field("metric", &T::metric,
              "minival/accuracy or minival/loss, or with ema_ after the slash; no rule when left out"),
        field("patience", &T::patience, "evaluations in a row that may be no better than the best", kFromOne),
        field("min_delta", &T::min_delta, "better by more than this counts, a share for accuracies", kNotNegative),
        field("mode", &T::mode, "what is better; inferred: the higher accuracy, the lower loss")};
  else if constexpr (std::is_same_v<T, TrainConfig>)
    return std::tuple{
        field("epochs", &T::epochs, "length of the training; this, steps or images", kTrainedEpochs),
        field("steps", &T::steps, "length of the training; this, epochs or images", kLength),
        field("images", &T::images, "length of the training; this, epochs or steps", kLength),
        field("batch_size", &T::batch_size, "images a step", kAtOnce),
        field("accumulate", &T::accumulate, "parts in which a batch goes through the network", kAtOnce),
        field("drop_last", &T::drop_last, "leave out an epoch's last, smaller batch"),
        field("optimizer", &T::optimizer, "the optimiser"),
        field("schedule", &T::schedule, "the learning rate over time"),
        field("clip_norm", &T::clip_norm, "largest global norm of the gradient; 0: no clipping", kNotNegative),
        field("clip_form", &T::clip_form, "limit / (norm + 1e-6), at most 1, or optax's limit / norm"),
        field("loss", &T::loss, "cross-entropy over a softmax, or a sigmoid a class"),
        field("label_smoothing", &T::label_smoothing, "taken from the label's class", kRate),
        field("smoothing", &T::smoothing, "which classes label_smoothing is spread over"),
        field("ema", &T::ema, "an average of the weights, evaluated beside them"),
        field("augment", &T::augment, "done to every training image"),
        field("eval_transform", &T::eval_transform, "done to every evaluation image"),
        field("precision", &T::precision,
              "of activations and products; weights are kept in float. bf16 needs a CPU (or GPU) with instructions for "
              "it; "
              "bf16_emulated rounds at the same places on every CPU, slowly; tf32: fp32 whose products a GPU makes of "
              "inputs "
              "rounded to 10 bits behind the first"),
        field("eval_every_epochs", &T::eval_every_epochs, "0: only at the end", kEpochs),
        field("early_stop", &T::early_stop, "ends a training that no longer becomes better on the minival"),
        field("collapse_steps", &T::collapse_steps,
              "the mean loss above its level at the warm-up's end for so many steps ends a training as diverged; 0: "
              "never",
              kFromZero)};
  else if constexpr (std::is_same_v<T, TrialConfig>)
    return std::tuple{field("dataset", &T::dataset, "a name, or an object"), field("model", &T::model, "the network"),
                      field("train", &T::train, "the training"), field("seed", &T::seed, "of all random draws")};
}

/// Calls `see(field)` for each line of the table.
template <class T, class Visitor>
void for_each_field(Visitor&& see) {
  std::apply([&](const auto&... each) { (see(each), ...); }, fields<T>());
}

inline bool applies(const NormSpec& spec, std::string_view key) {
  bool meant = key == "kind";
  for_each_field<NormSpec>([&](const auto& field) {
    if constexpr (!std::is_enum_v<typename std::remove_cvref_t<decltype(field)>::Member>)
      meant = meant || (field.key == key && parts_of(spec.kind).has(field.member));
  });
  return meant;
}

}  // namespace normlab
