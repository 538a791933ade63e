// What a network computes, as formulas for people: "x = x + Attn(LN(x))".
#pragma once

#include <string>
#include <vector>

#include "nn/model_config.h"

namespace normlab {

/// The two branches of a block. `inside` says what Attn, MLP and the gains are, where that is more than the name says.
struct BlockFormula {
  std::string attention, mlp;
  std::vector<std::string> inside;
};
BlockFormula block_formula(const ModelConfig& model, std::int64_t block);
std::string stem_formula(const ModelConfig& model);
std::string end_formula(const ModelConfig& model);

/// Blocks of equal sites, in the order of their first ones; never empty lists.
std::vector<std::vector<std::int64_t>> equal_blocks(const ModelConfig& model);

/// A norm as descriptors write it, with the settings that are not its kind's defaults in a model of that kind:
/// "batch_norm(momentum=0.2)".
std::string norm_text(const NormSpec& spec, ModelKind model);

/// The sites and gains in which `model` differs from `base`: "attn.pre: layer_norm -> rms_norm (blocks 0-3)". Blocks
/// that only one of them has are left out.
std::vector<std::string> site_changes(const ModelConfig& base, const ModelConfig& model);

}  // namespace normlab
