// The settings of a Swin Transformer. The field names are the JSON keys of a descriptor's "model" of kind swin.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "nn/model/dropout_rates.h"
#include "nn/model/vit_config.h"

namespace normlab {

struct SwinConfig : NetworkConfig {
  std::int64_t window = 7;
  WindowPadding window_padding = WindowPadding::before_shift;
  std::vector<std::int64_t> depths{2, 2, 6, 2};
  std::vector<std::int64_t> num_heads{3, 6, 12, 24};
  std::int64_t mlp_ratio = 4;
  bool reduction_bias = false;  // of patch merging; needed once a batch norm is merged into the reduction
  /// Read from results of earlier versions, in which a grid with one side of at most a window did not shift along the
  /// other either. Such a network has the same cost and an id, but is not computed any more. No key of a descriptor.
  bool one_side_unshifted = false;

  SwinConfig() { embed_dim = 96; }
  std::int64_t stages() const { return std::int64_t(depths.size()); }
  /// Blocks of all stages: the depth that LayerScale and Sub-LN use.
  std::int64_t depth() const;
  bool operator==(const SwinConfig&) const = default;
};
template <std::same_as<SwinConfig> T>
constexpr auto rows_of(const T*) {
  return kImageRows +
         Fields{field("window", &T::window, "tokens per side; at most the shorter side of a stage",
                      limits::sizes(limits::kWindow)),
                field("window_padding", &T::window_padding,
                      "when a shifted grid that windows do not divide is padded: before the shift, as in "
                      "torchvision, or after it, as in timm, so that opposite edges see each other"),
                field("embed_dim", &T::embed_dim, "width of the first stage; doubles with each stage",
                      limits::sizes(limits::kWidth)),
                field("depths", &T::depths, "number of blocks of each stage", limits::sizes(limits::kDepth)),
                field("num_heads", &T::num_heads, "attention heads of each stage", limits::sizes(limits::kWidth)),
                field("mlp_ratio", &T::mlp_ratio, "width of the hidden layer / width of the stage",
                      limits::sizes(limits::kMlpRatio))} +
         kClassRows + kBiasRows +
         Fields{field("reduction_bias", &T::reduction_bias, "the linear layer of patch merging has a bias")} +
         kMlpRows + Fields{gelu_row<T>()} + kRateRows +
         Fields{field("short_forms", &T::short_forms, "do not compute branches that drop_path drops")
                    .when({[](const NetworkConfig& c) { return c.drop_path > 0; },
                           "without drop_path there is nothing to skip"})} +
         kLastRows;
}

inline SwinConfig defaults_beside(const SwinConfig& model) {
  SwinConfig out;
  out.activation = default_activation(model.mlp);
  return out;
}

/// A stage with its computed sizes. `height` and `width` are its token grid, half of the previous stage's, rounded up.
/// A window is at most as large as the shorter side. Each side decides alone whether it shifts (torchvision, timm).
struct SwinStage {
  std::int64_t embed_dim, num_heads, mlp_dim, height, width, window, depth;
  std::int64_t first_block;  // counted through all stages
  std::int64_t tokens() const { return height * width; }
  /// Rows up and columns left by which block i of the stage shifts: every second one by half a window, but not along a
  /// side of one window.
  std::array<std::int64_t, 2> shift(std::int64_t i) const {
    const auto along = [&](std::int64_t side) { return i % 2 == 0 || side <= window ? 0 : window / 2; };
    return {along(height), along(width)};
  }
  /// Whether some block shifts a side that is padded, so that it matters which comes first.
  bool pads_shifted() const {
    const auto [rows, columns] = shift(depth > 1 ? 1 : 0);
    return (rows > 0 && height % window != 0) || (columns > 0 && width % window != 0);
  }
  /// Whether some block shifts along one side alone.
  bool shifts_one_side() const {
    const auto [rows, columns] = shift(depth > 1 ? 1 : 0);
    return (rows > 0) != (columns > 0);
  }
  /// Tokens including padding to whole windows.
  std::int64_t padded_tokens() const {
    const auto up = [&](std::int64_t n) { return (n + window - 1) / window * window; };
    return up(height) * up(width);
  }
};
std::vector<SwinStage> swin_stages(const SwinConfig& config);
/// Of any stage of a valid configuration.
bool pads_shifted(const SwinConfig& config);
bool shifts_one_side(const SwinConfig& config);

/// The norm of that kind with Swin's defaults: epsilon 1e-5 for every kind that has one.
NormSpec swin_norm(NormKind kind);
/// A named placement on a Swin: every norm as in swin_norm(). `stem.patch_out` and `merge` get the kind of its final
/// norm, or else of its branches, unless the placement sets them.
Placement swin_placement(const Placement& row);

std::vector<BlockSizes> block_sizes(const SwinConfig& config);
/// One message for each size that does not fit, as for the ViT, and for a norm at `stem.posembed_out`, which
/// Swin lacks.
std::vector<ConfigProblem> validate(const SwinConfig& config);

/// Depths, widths and heads by name: "Swin-T", ..., "SwinD-B" (patch 4, window 7).
struct SwinVariant {
  std::string_view name;
  std::int64_t embed_dim;
  std::array<std::int64_t, 4> depths;
  /// Heads of 32 channels in every stage.
  std::vector<std::int64_t> num_heads() const;
};
inline constexpr SwinVariant kSwinVariants[] = {
    {"Swin-T", 96, {2, 2, 6, 2}},   {"Swin-S", 96, {2, 2, 18, 2}},  {"Swin-B", 128, {2, 2, 18, 2}},
    {"SwinD-T", 64, {2, 2, 18, 2}}, {"SwinD-S", 64, {2, 2, 42, 2}}, {"SwinD-B", 96, {2, 2, 42, 2}},
};
/// Applies the variant's settings.
void set_variant(SwinConfig& config, const SwinVariant& variant);

}  // namespace normlab
