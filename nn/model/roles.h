// What the learned parts of a network are and where they are. Initialisers, weight decay, layer-wise rates, probes,
// fusion and reports use this and never a parameter's name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace normlab {

/// The function of a parameter: the weight or bias of a linear layer (these come first), or something else.
enum class Role : std::uint8_t {
  patch_embed,
  q,
  k,
  v,
  proj,
  fc1,
  fc2,
  reduction,
  rep,
  head,
  head_dist,
  norm,
  layer_scale,
  gain,  // of heads and of the MLP's shortcut
  positions,
  class_token,
  distill_token,
  bias_table,
  embedding  // of words, and of their positions
};
constexpr bool is_linear(Role role) { return role <= Role::head_dist; }
constexpr bool is_qkv(Role role) { return Role::q <= role && role <= Role::v; }

/// The rows that an image has at some place in a network.
enum class Rows : std::uint8_t { patches, tokens, attended, one };  // attended: the tokens with the padding of windows

/// For each linear layer: its path in its block, stage or network, and the rows that pass it.
struct LinearRow {
  std::string_view path;
  Rows rows;
};
inline constexpr LinearRow kLinears[] = {{"patch_embed", Rows::patches},
                                         {"attn.q", Rows::attended},
                                         {"attn.k", Rows::attended},
                                         {"attn.v", Rows::attended},
                                         {"attn.proj", Rows::attended},
                                         {"mlp.fc1", Rows::tokens},
                                         {"mlp.fc2", Rows::tokens},
                                         {"reduction", Rows::tokens},
                                         {"rep", Rows::one},
                                         {"head", Rows::one},
                                         {"head_dist", Rows::one}};
constexpr const LinearRow& row_of(Role linear) { return kLinears[std::size_t(linear)]; }

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
