// What the learned parts of a network are and where they are. Initialisers, weight decay, layer-wise rates, probes,
// fusion and reports use this and never a parameter's name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "core/error.h"

namespace normlab {

/// The function of a parameter: the weight or bias of a linear layer, which has a row in kLinears, or something else.
enum class Role : std::uint8_t {
  patch_embed,
  q,
  k,
  v,
  gate,  // of heads; begins like q, of which it is a part in the code of its authors
  proj,
  fc1,
  fc2,
  fc3,  // of a gated MLP, beside fc1
  reduction,
  rep,
  head,
  head_dist,
  norm,
  layer_scale,
  gain,  // of heads, of the MLP's shortcut, and the logarithms of what scores are multiplied by
  positions,
  class_token,
  distill_token,
  register_tokens,
  bias_table,
  embedding  // of words, and of their positions
};

/// The rows that an image has at some place in a network.
enum class Rows : std::uint8_t { patches, tokens, attended, one };  // attended: the tokens with the padding of windows

/// A linear layer: its path in its block, stage or network, and the rows that pass it.
struct LinearRow {
  Role role;
  std::string_view path;
  Rows rows;
  bool qkv = false;  // one of the projections of attention's input
};
inline constexpr LinearRow kLinears[] = {{.role = Role::patch_embed, .path = "patch_embed", .rows = Rows::patches},
                                         {.role = Role::q, .path = "attn.q", .rows = Rows::attended, .qkv = true},
                                         {.role = Role::k, .path = "attn.k", .rows = Rows::attended, .qkv = true},
                                         {.role = Role::v, .path = "attn.v", .rows = Rows::attended, .qkv = true},
                                         {.role = Role::gate, .path = "attn.gate", .rows = Rows::attended, .qkv = true},
                                         {.role = Role::proj, .path = "attn.proj", .rows = Rows::attended},
                                         {.role = Role::fc1, .path = "mlp.fc1", .rows = Rows::tokens},
                                         {.role = Role::fc2, .path = "mlp.fc2", .rows = Rows::tokens},
                                         {.role = Role::fc3, .path = "mlp.fc3", .rows = Rows::tokens},
                                         {.role = Role::reduction, .path = "reduction", .rows = Rows::tokens},
                                         {.role = Role::rep, .path = "rep", .rows = Rows::one},
                                         {.role = Role::head, .path = "head", .rows = Rows::one},
                                         {.role = Role::head_dist, .path = "head_dist", .rows = Rows::one}};
/// The row of a linear layer, or null.
constexpr const LinearRow* find_linear(Role role) {
  const auto* found =
      std::find_if(std::begin(kLinears), std::end(kLinears), [&](const auto& l) { return l.role == role; });
  return found == std::end(kLinears) ? nullptr : found;
}
constexpr bool is_linear(Role role) { return find_linear(role) != nullptr; }
constexpr const LinearRow& row_of(Role linear) { return *find_linear(linear); }
constexpr bool is_qkv(Role role) { return is_linear(role) && row_of(role).qkv; }

/// A part of a network.
struct Place {
  std::string stage{};        // "stages.1." of a Swin, or ""
  std::int64_t block = -1;    // counted in the stage; -1 outside of blocks
  std::string_view branch{};  // of the block: "attn" or "mlp"
  /// Counted through the network as in BEiT's fine-tuning: 0 before all blocks, 1 for the first block, the number of
  /// blocks plus one after the last. Patch merging belongs to the block before it (Swin's own fine-tuning code).
  std::int64_t layer = 0;

  /// The prefix of names here: "stages.1.blocks.0."; `numbers` replaces the block's number.
  std::string prefix(std::string_view numbers) const {
    return block < 0 ? stage : concat(stage, "blocks.", numbers, ".");
  }
  std::string prefix() const { return prefix(std::to_string(block)); }
};

}  // namespace normlab
