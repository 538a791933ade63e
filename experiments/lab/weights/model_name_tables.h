// Names of layers and parameters in timm, Big Vision and AugReg, as tables. Used only by model_names*.cpp and convert.cpp.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "experiments/lab/weights/model_names.h"

namespace normlab::name_tables {

// --- The tables. "{}" is a number, equal on both sides; a trailing "*" matches anything.

/// The kind of a row. tensor: one tensor with the whole name, equal on both sides. The others are layers, whose tensors
/// have a suffix. layer: a norm or a linear. patches: the patch embedding. q, k, v: a third of the rows of one tensor.
/// split_heads: a linear with output [heads, head width]. join_heads: a linear with such an input.
enum class Row : std::uint8_t { tensor, layer, patches, q, k, v, split_heads, join_heads };

struct NameRow {
  std::string_view ours, theirs;
  Row row = Row::layer;
  std::string_view gated{};   // theirs in a gated MLP, if it differs
  std::string_view packed{};  // theirs in a gated MLP without a norm: fc1, then fc3, in one tensor
};

/// timm's vision_transformer.py and deit.py.
inline constexpr NameRow kTimmViT[] = {
    {"patch_embed", "patch_embed.proj", Row::patches},
    {"stem.patch_out", "patch_embed.norm"},
    {"cls_token", "cls_token", Row::tensor},
    {"dist_token", "dist_token", Row::tensor},
    {"reg_token", "reg_token", Row::tensor},
    {"pos_embed", "pos_embed", Row::tensor},
    {"stem.posembed_out", "norm_pre"},
    {"blocks.{}.attn.pre", "blocks.{}.norm1"},
    {"blocks.{}.attn.q", "blocks.{}.attn.qkv", Row::q},
    {"blocks.{}.attn.k", "blocks.{}.attn.qkv", Row::k},
    {"blocks.{}.attn.v", "blocks.{}.attn.qkv", Row::v},
    {"blocks.{}.attn.query", "blocks.{}.attn.q_norm"},
    {"blocks.{}.attn.key", "blocks.{}.attn.k_norm"},
    {"blocks.{}.attn.gate", "blocks.{}.attn.gate"},
    {"blocks.{}.attn.inner", "blocks.{}.attn.norm"},
    {"blocks.{}.attn.proj", "blocks.{}.attn.proj"},
    {"blocks.{}.attn.layer_scale", "blocks.{}.ls1.gamma", Row::tensor},
    {"blocks.{}.mlp.pre", "blocks.{}.norm2"},
    {"blocks.{}.mlp.fc1", "blocks.{}.mlp.fc1", Row::layer, "blocks.{}.mlp.fc1_g"},  // SwiGLU
    {"blocks.{}.mlp.fc3", "blocks.{}.mlp.fc1_x"},
    {"blocks.{}.mlp.inner", "blocks.{}.mlp.norm"},
    {"blocks.{}.mlp.fc2", "blocks.{}.mlp.fc2"},
    {"blocks.{}.mlp.layer_scale", "blocks.{}.ls2.gamma", Row::tensor},
    {"final", "norm"},
    {"pooled", "fc_norm"},
    {"head", "head"},
    {"head_dist", "head_dist"},
};

/// timm's eva.py, which has the networks with rotary positions.
inline constexpr NameRow kTimmEva[] = {
    {"patch_embed", "patch_embed.proj", Row::patches},
    {"cls_token", "cls_token", Row::tensor},
    {"reg_token", "reg_token", Row::tensor},
    {"pos_embed", "pos_embed", Row::tensor},
    {"stem.posembed_out", "norm_pre"},
    {"blocks.{}.attn.pre", "blocks.{}.norm1"},
    {"blocks.{}.attn.q", "blocks.{}.attn.qkv", Row::q},
    {"blocks.{}.attn.k", "blocks.{}.attn.qkv", Row::k},
    {"blocks.{}.attn.v", "blocks.{}.attn.qkv", Row::v},
    {"blocks.{}.attn.query", "blocks.{}.attn.q_norm"},
    {"blocks.{}.attn.key", "blocks.{}.attn.k_norm"},
    {"blocks.{}.attn.inner", "blocks.{}.attn.norm"},
    {"blocks.{}.attn.proj", "blocks.{}.attn.proj"},
    {"blocks.{}.attn.layer_scale", "blocks.{}.gamma_1", Row::tensor},
    {"blocks.{}.mlp.pre", "blocks.{}.norm2"},
    {"blocks.{}.mlp.fc1", "blocks.{}.mlp.fc1", Row::layer, "blocks.{}.mlp.fc1_g", "blocks.{}.mlp.fc1"},
    {"blocks.{}.mlp.fc3", "blocks.{}.mlp.fc1_x", Row::layer, "", "blocks.{}.mlp.fc1"},
    {"blocks.{}.mlp.inner", "blocks.{}.mlp.norm"},
    {"blocks.{}.mlp.fc2", "blocks.{}.mlp.fc2"},
    {"blocks.{}.mlp.layer_scale", "blocks.{}.gamma_2", Row::tensor},
    {"final", "norm"},
    {"pooled", "fc_norm"},
    {"head", "head"},
};

/// timm's swin_transformer.py.
inline constexpr NameRow kTimmSwin[] = {
    {"patch_embed", "patch_embed.proj", Row::patches},
    {"stem.patch_out", "patch_embed.norm"},
    {"stages.{}.merge", "layers.{}.downsample.norm"},
    {"stages.{}.reduction", "layers.{}.downsample.reduction"},
    {"stages.{}.blocks.{}.attn.pre", "layers.{}.blocks.{}.norm1"},
    {"stages.{}.blocks.{}.attn.q", "layers.{}.blocks.{}.attn.qkv", Row::q},
    {"stages.{}.blocks.{}.attn.k", "layers.{}.blocks.{}.attn.qkv", Row::k},
    {"stages.{}.blocks.{}.attn.v", "layers.{}.blocks.{}.attn.qkv", Row::v},
    {"stages.{}.blocks.{}.attn.bias_table", "layers.{}.blocks.{}.attn.relative_position_bias_table", Row::tensor},
    {"stages.{}.blocks.{}.attn.proj", "layers.{}.blocks.{}.attn.proj"},
    {"stages.{}.blocks.{}.mlp.pre", "layers.{}.blocks.{}.norm2"},
    {"stages.{}.blocks.{}.mlp.fc1", "layers.{}.blocks.{}.mlp.fc1"},
    {"stages.{}.blocks.{}.mlp.fc2", "layers.{}.blocks.{}.mlp.fc2"},
    {"final", "norm"},
    {"head", "head.fc"},
};

/// Big Vision's models/vit.py.
inline constexpr NameRow kBigVision[] = {
    {"patch_embed", "embedding", Row::patches},
    {"cls_token", "cls", Row::tensor},
    {"pos_embed", "pos_embedding", Row::tensor},
    {"blocks.{}.attn.pre", "Transformer/encoderblock_{}/LayerNorm_0"},
    {"blocks.{}.attn.q", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_0/query", Row::split_heads},
    {"blocks.{}.attn.k", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_0/key", Row::split_heads},
    {"blocks.{}.attn.v", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_0/value", Row::split_heads},
    {"blocks.{}.attn.proj", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_0/out", Row::join_heads},
    {"blocks.{}.mlp.pre", "Transformer/encoderblock_{}/LayerNorm_1"},
    {"blocks.{}.mlp.fc1", "Transformer/encoderblock_{}/MlpBlock_0/Dense_0"},
    {"blocks.{}.mlp.fc2", "Transformer/encoderblock_{}/MlpBlock_0/Dense_1"},
    {"final", "Transformer/encoder_norm"},
    {"rep", "pre_logits"},
    {"head", "head"},
};

/// vision_transformer's models_vit.py, which numbers all modules of a block consecutively.
inline constexpr NameRow kAugReg[] = {
    {"patch_embed", "embedding", Row::patches},
    {"cls_token", "cls", Row::tensor},
    {"pos_embed", "Transformer/posembed_input/pos_embedding", Row::tensor},
    {"blocks.{}.attn.pre", "Transformer/encoderblock_{}/LayerNorm_0"},
    {"blocks.{}.attn.q", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/query", Row::split_heads},
    {"blocks.{}.attn.k", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/key", Row::split_heads},
    {"blocks.{}.attn.v", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/value", Row::split_heads},
    {"blocks.{}.attn.proj", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/out", Row::join_heads},
    {"blocks.{}.mlp.pre", "Transformer/encoderblock_{}/LayerNorm_2"},
    {"blocks.{}.mlp.fc1", "Transformer/encoderblock_{}/MlpBlock_3/Dense_0"},
    {"blocks.{}.mlp.fc2", "Transformer/encoderblock_{}/MlpBlock_3/Dense_1"},
    {"final", "Transformer/encoder_norm"},
    {"rep", "pre_logits"},
    {"head", "head"},
};

/// Suffixes of a layer's tensors; a matrix is transposed if the other program stores [in, out].
struct Suffix {
  std::string_view ours, theirs;
  bool transposed = false;
};
inline constexpr Suffix kTorchSuffixes[] = {{"weight", "weight"},
                                            {"bias", "bias"},
                                            {"gamma", "weight"},
                                            {"beta", "bias"},
                                            {"alpha", "alpha"},
                                            {"running_mean", "running_mean"},
                                            {"running_var", "running_var"}};
inline constexpr Suffix kFlaxSuffixes[] = {
    {"weight", "kernel", true}, {"bias", "bias"}, {"gamma", "scale"}, {"beta", "bias"}};

/// Additional or alternative names that a file may contain.
struct SpecialName {
  std::string_view theirs;
  SourceName::Use use;
  std::string_view text;  // take: the name it replaces; skip, refuse: the reason
};
using Use = SourceName::Use;
inline constexpr SpecialName kNormlabSpecial[] = {
    {"optimizer.*", Use::skip, "state of the optimiser"},
    {"ema/*", Use::skip, "averaged weights, which --ema uses"},
};
inline constexpr std::string_view kMapHead = "attention pooling (Big Vision's MAP head), which no model here has";
inline constexpr SpecialName kTimmSpecial[] = {
    {"*.relative_position_index", Use::skip, "computed from the window"},
    {"*.attn_mask", Use::skip, "computed from the window"},
    {"*.num_batches_tracked", Use::skip, "a count that evaluation does not use"},
    {"attn_pool.*", Use::refuse, "attention pooling, which no model here has"},
};
inline constexpr SpecialName kTimmViTSpecial[] = {
    {"blocks.{}.gamma_1", Use::take, "blocks.{}.ls1.gamma"},  // DeiT-III's own files
    {"blocks.{}.gamma_2", Use::take, "blocks.{}.ls2.gamma"},
};
/// The head in the files of Swin's authors, whose merging layers also have an index that is lower by one.
inline constexpr SpecialName kTimmSwinSpecial[] = {
    {"head.weight", Use::take, "head.fc.weight"},
    {"head.bias", Use::take, "head.fc.bias"},
};
inline constexpr std::string_view kMerge = "layers.{}.downsample.*", kFirstMerge = "layers.0.downsample.";
inline constexpr SpecialName kFlaxSpecial[] = {
    {"MAPHead_0/*", Use::refuse, kMapHead},
};

inline constexpr std::string_view kNoPrefix[] = {""};
inline constexpr std::string_view kFlaxPrefixes[] = {"", "opt/target/", "params/", "params/img/"};

/// The names in one of a program's networks, and those that only its files have.
struct NetworkNames {
  std::span<const NameRow> rows{};
  std::span<const SpecialName> special{};
};
struct SchemeTable {
  std::string_view program;
  bool npz = false;
  NetworkNames vit, swin, rotary;  // rotary: a ViT with rotary positions
  std::span<const Suffix> suffixes;
  std::span<const SpecialName> special;
  /// That all names of a file may have, including the empty one, and the tensor that identifies the prefix.
  std::span<const std::string_view> prefixes = kNoPrefix;
  std::string_view witness = "";
};
/// In the order of NameScheme.
inline constexpr std::array<SchemeTable, 4> kSchemes{{
    {"normlab", false, {}, {}, {}, {}, kNormlabSpecial},
    {"timm",
     false,
     {kTimmViT, kTimmViTSpecial},
     {kTimmSwin, kTimmSwinSpecial},
     {kTimmEva},
     kTorchSuffixes,
     kTimmSpecial},
    {"Big Vision", true, {kBigVision}, {}, {}, kFlaxSuffixes, kFlaxSpecial, kFlaxPrefixes, "embedding/kernel"},
    {"AugReg", true, {kAugReg}, {}, {}, kFlaxSuffixes, kFlaxSpecial, kFlaxPrefixes, "embedding/kernel"},
}};
inline constexpr std::string_view kScannedBlocks = "Transformer/encoderblock/", kOneBlock = "Transformer/encoderblock_";

inline const SchemeTable& table_of(NameScheme scheme) { return kSchemes[static_cast<std::size_t>(scheme)]; }
/// A program without rotary positions has the names of a ViT without them.
inline const NetworkNames& names_of(const SchemeTable& table, const ModelConfig& config) {
  const auto* vit = std::get_if<ViTConfig>(&config);
  if (vit == nullptr) return table.swin;
  return vit->rotary.given() && !table.rotary.rows.empty() ? table.rotary : table.vit;
}

}  // namespace normlab::name_tables
