// The settings of a Vision Transformer. The field names are the JSON keys of a descriptor's "model".
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/model_cost.h"

namespace normlab {

enum class Pool : std::uint8_t { token, gap };
enum class PosEmbed : std::uint8_t { learned, sincos2d };
enum class Gelu : std::uint8_t { erf, tanh };
enum class Init : std::uint8_t { big_vision, timm, torch, timm_jax, deit };  // nn/init.h says what each is

struct ViTConfig {
  std::array<std::int64_t, 2> image_size{32, 32};  // height, width
  std::int64_t channels = 3;
  std::int64_t patch_size = 4;
  std::int64_t embed_dim = 192;
  std::int64_t depth = 12;
  std::int64_t num_heads = 3;
  std::int64_t mlp_dim = 768;  // default in a descriptor: 4 embed_dim
  std::int64_t num_classes = 10;
  Pool pool = Pool::gap;
  PosEmbed pos_embed = PosEmbed::learned;
  bool pos_embed_class = false;  // the class token has a learned position (original ViT, DeiT, timm)
  bool distill_token = false;    // DeiT's second token with a head of its own; logits are the mean of both heads
  bool qkv_bias = true;
  std::int64_t rep_size = 0;  // width of the dense + tanh layer before the head; 0 leaves it out
  Gelu gelu = Gelu::erf;
  double dropout = 0.0;            // after the stem, both branches and the hidden layer
  double attention_dropout = 0.0;  // on the attention weights
  double drop_path = 0.0;          // rate of the last block; grows linearly from 0 at the first
  Init init = Init::big_vision;
  double head_bias_init = 0.0;  // Big Vision sets -6.9 for the sigmoid loss
  Placement placement{};

  std::int64_t patches() const { return image_size[0] / patch_size * (image_size[1] / patch_size); }
  /// Tokens before the patches: class token, distillation token.
  std::int64_t prefix() const { return pool == Pool::token ? (distill_token ? 2 : 1) : 0; }
  std::int64_t tokens() const { return patches() + prefix(); }
  std::int64_t patch_pixels() const { return patch_size * patch_size * channels; }
  /// True where the class token (and the distillation token) has a position of its own.
  bool class_position() const { return pool == Pool::token && pos_embed == PosEmbed::learned && pos_embed_class; }
  /// Drop-path rate of block i.
  double drop_path_rate(std::int64_t i) const {
    return depth > 1 ? drop_path * double(i) / double(depth - 1) : drop_path;
  }
  bool operator==(const ViTConfig&) const = default;
};

/// Of every block; those of the first hold before the blocks too, those of the last after them.
std::vector<BlockSizes> block_sizes(const ViTConfig& config);

/// One message for each size that does not fit: heads that do not divide the width, a patch that does not divide the
/// image, a zero or negative size, a rate outside [0, 1), sincos2d with a width that is not a multiple of four, a
/// norm at Swin's site `merge`.
std::vector<ConfigProblem> validate(const ViTConfig& config);

}  // namespace normlab
