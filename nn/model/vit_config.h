// The settings of a Vision Transformer. The field names are the JSON keys of a descriptor's "model".
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/field.h"
#include "core/kernel_settings.h"
#include "nn/model/activation.h"
#include "nn/model/dropout_rates.h"
#include "nn/model/init_config.h"
#include "nn/model/model_cost.h"
#include "nn/model/rotary_config.h"
#include "nn/model/text_config.h"

namespace normlab {

/// What a network answers, see nn/training/task.h.
enum class Task : std::uint8_t { classify, segment, contrast };
constexpr auto stated_words(Task) { return words<Task>("classify", "segment", "contrast"); }

enum class Pool : std::uint8_t { token, gap };
constexpr auto stated_words(Pool) { return words<Pool>("token", "gap"); }

enum class PosEmbed : std::uint8_t { learned, sincos2d, none };
constexpr auto stated_words(PosEmbed) { return words<PosEmbed>("learned", "sincos2d", "none"); }

/// rising: linearly from 0 in the first block to drop_path in the last. constant: drop_path in every block.
enum class DropPathRates : std::uint8_t { rising, constant };
constexpr auto stated_words(DropPathRates) { return words<DropPathRates>("rising", "constant"); }

/// What every network has.
struct NetworkConfig {
  std::array<std::int64_t, 2> image_size{32, 32};  // height, width
  std::int64_t channels = 3;
  std::int64_t patch_size = 4;
  std::int64_t embed_dim = 192;
  std::int64_t num_classes = 10;
  bool qkv_bias = true;
  ActivationConfig activation{};
  MlpForm mlp = MlpForm::plain;
  GeluForm gelu = GeluForm::erf;
  DropoutRates dropout{};
  double attention_dropout = 0.0;
  double drop_path = 0.0;
  DropPathRates drop_path_rates = DropPathRates::rising;
  bool short_forms = true;
  double head_bias_init = 0.0;  // Big Vision sets -6.9 for the sigmoid loss
  Placement placement{};

  std::int64_t patch_pixels() const { return patch_size * patch_size * channels; }
  bool operator==(const NetworkConfig&) const = default;
};
// Its rows, in groups of neighbours in the table of each network. Each has its own row for embed_dim and short_forms.
inline constexpr Fields kImageRows{
    field("image_size", &NetworkConfig::image_size, "pixels per side, or [height, width]; the dataset's if omitted",
          limits::sizes(limits::kSide)),
    field("channels", &NetworkConfig::channels, "channels of an image; the dataset's if omitted",
          limits::sizes(limits::kChannels)),
    field("patch_size", &NetworkConfig::patch_size, "pixels per side", limits::sizes(limits::kSide))};
inline constexpr Fields kClassRows{field("num_classes", &NetworkConfig::num_classes,
                                         "number of classes; the dataset's if omitted",
                                         limits::sizes(limits::kClasses))};
inline constexpr Fields kBiasRows{field("qkv_bias", &NetworkConfig::qkv_bias, "query, key and value have biases")};
inline constexpr Fields kMlpRows{field("activation", &NetworkConfig::activation, kActivationDoc),
                                 field("mlp", &NetworkConfig::mlp, kMlpDoc)};
template <class T>
constexpr auto gelu_row() {
  return field<T, GeluForm>("gelu", &T::gelu, "form of the activation gelu")
      .when({[](const T& c) { return has_gelu(c); }, "no activation is the word \"gelu\", whose form this is"});
}
inline constexpr Fields kRateRows{
    field("dropout", &NetworkConfig::dropout, kDropoutDoc, kRate),
    field("attention_dropout", &NetworkConfig::attention_dropout, "rate on the attention weights", kRate),
    field("drop_path", &NetworkConfig::drop_path, "rate of the last block", kRate),
    field("drop_path_rates", &NetworkConfig::drop_path_rates,
          "of the other blocks; rising: linearly from 0 at the first, so a single block has none; constant: the same")
        .when({[](const NetworkConfig& c) { return c.drop_path > 0; }, "there is no drop_path"})};
inline constexpr Fields kLastRows{
    field("head_bias_init", &NetworkConfig::head_bias_init, "initial value of the head's bias"),
    field("placement", &NetworkConfig::placement, "the name of a placement, or its sites")};

struct ViTConfig : NetworkConfig {
  std::int64_t depth = 12;
  std::int64_t num_heads = 3;
  std::int64_t mlp_dim = 768;  // default in a descriptor: 4 embed_dim
  Task task = Task::classify;
  Pool pool = Pool::gap;
  PosEmbed pos_embed = PosEmbed::learned;
  bool pos_embed_class = false;  // the class token has a learned position (original ViT, DeiT, timm)
  RotaryConfig rotary{};
  bool distill_token = false;
  std::int64_t registers = 0;
  std::int64_t rep_size = 0;
  InitConfig init{};
  TextConfig text{};

  std::int64_t patches() const { return image_size[0] / patch_size * (image_size[1] / patch_size); }
  /// Tokens that heads read: class token, distillation token.
  std::int64_t class_tokens() const { return pool == Pool::token ? (distill_token ? 2 : 1) : 0; }
  /// Tokens before the patches: those, then the registers.
  std::int64_t prefix() const { return class_tokens() + registers; }
  std::int64_t tokens() const { return patches() + prefix(); }
  /// Width of the features, the head's inputs.
  std::int64_t feature_width() const { return rep_size > 0 ? rep_size : embed_dim; }
  /// Whether the class token (and the distillation token) has its own position.
  bool class_position() const { return pool == Pool::token && pos_embed == PosEmbed::learned && pos_embed_class; }
  bool operator==(const ViTConfig&) const = default;
};
/// Whether some activation of the network is the word gelu.
inline bool has_gelu(const NetworkConfig& c) { return c.activation.kind == ActivationKind::gelu; }
inline bool has_gelu(const ViTConfig& c) {
  return has_gelu(static_cast<const NetworkConfig&>(c)) ||
         (c.task == Task::contrast && c.text.activation.kind == ActivationKind::gelu);
}
template <std::same_as<ViTConfig> T>
constexpr auto rows_of(const T*) {
  return kImageRows +
         Fields{field("embed_dim", &T::embed_dim, "width of a token", limits::sizes(limits::kWidth)),
                field("depth", &T::depth, "number of blocks", limits::sizes(limits::kDepth)),
                field("num_heads", &T::num_heads, "attention heads", limits::sizes(limits::kWidth)),
                field("mlp_dim", &T::mlp_dim, "width of the hidden layer; 4 embed_dim if omitted",
                      limits::sizes(limits::kMlp))} +
         kClassRows +
         Fields{
             field("task", &T::task,
                   "classify: the class of an image; segment: the class of each pixel, by the head on every patch "
                   "token, whose logits are resized to the image; contrast: which of a batch's texts belongs to an "
                   "image, by a text tower in place of the head"),
             field("pool", &T::pool, "the class token, or the mean over all patches"),
             field("pos_embed", &T::pos_embed, "positions that are added to the patches"),
             field("pos_embed_class", &T::pos_embed_class,
                   "pool token, learned positions: the class token has a position")
                 .when({[](const T& c) { return c.pool == Pool::token && c.pos_embed == PosEmbed::learned; },
                        "only a class token (pool token) with learned positions can have one"}),
             field("rotary", &T::rotary, "rotary positions, which turn queries and keys by row and column of a patch"),
             field("distill_token", &T::distill_token,
                   "pool token: DeiT's second token, with its own head; logits are the mean of both heads")
                 .when({[](const T& c) { return c.pool == Pool::token; },
                        "a distillation token needs a class token; set pool to \"token\""}),
             field("registers", &T::registers,
                   "learned tokens behind the class token, without a position, that no head reads (arXiv:2309.16588)",
                   limits::sizes(limits::kRegisters, 0))} +
         kBiasRows +
         Fields{field("rep_size", &T::rep_size, "width of a dense + tanh layer before the head; 0: no such layer",
                      limits::sizes(limits::kWidth, 0))} +
         kMlpRows + Fields{gelu_row<T>()} + kRateRows +
         Fields{field<T, bool>("short_forms", &T::short_forms,
                               "do not compute branches that drop_path drops and, with pool token, compute only the "
                               "class token in the last block")
                    .when({[](const T& c) { return c.drop_path > 0 || c.pool == Pool::token; },
                           "without drop_path or a class token (pool token) there is nothing to skip"}),
                field("init", &T::init,
                      "code base whose initial values are used, or an object that changes parts of them")} +
         kLastRows +
         Fields{
             field("text", &T::text, "a text tower, which takes the place of the head: image-text training")
                 .when({[](const T& c) { return c.task == Task::contrast; }, "only task contrast has a text tower"})};
}
inline ViTConfig defaults_beside(const ViTConfig& model) {
  ViTConfig out;
  out.activation = default_activation(model.mlp);
  out.mlp_dim = std::int64_t(4 * std::uint64_t(model.embed_dim));  // a hostile width wraps and is rejected later
  return out;
}

/// The text tower's blocks as those of a ViT, one of whose patches is a token.
ViTConfig text_tower(const ViTConfig& config);

/// Of every block. The sizes of the first also apply before the blocks, those of the last after them.
std::vector<BlockSizes> block_sizes(const ViTConfig& config);

/// One message for each size that does not fit: heads that do not divide the width, a patch that does not divide the
/// image, a size that is not positive, a rate outside [0, 1), sincos2d with a width that is not a multiple of four, a
/// norm at Swin's site `merge`.
std::vector<ConfigProblem> validate(const ViTConfig& config);

}  // namespace normlab
