// Formulas for people: "x = x + Attn(LN(x))".
#pragma once

#include <string>
#include <vector>

#include "nn/model/model_config.h"

namespace normlab {

/// The two branches of a block. `inside` defines Attn, MLP and the gains where the names alone do not.
struct BlockFormula {
  std::string attention, mlp;
  std::vector<std::string> inside;
};
BlockFormula block_formula(const ModelConfig& model, std::int64_t block);
std::string stem_formula(const ModelConfig& model);
std::string end_formula(const ModelConfig& model);

/// Grouped by equal sites, in order of first block; no group is empty.
std::vector<std::vector<std::int64_t>> equal_blocks(const ModelConfig& model);

/// "LN(inner)", with the settings that differ from the kind's defaults; of a formula "[x / rms(x)](inner)".
std::string normed_text(const NormSpec& spec, ModelKind model, const std::string& inner);

/// In descriptor notation, with the settings that differ from the kind's defaults in
/// such a model: "batch_norm(momentum=0.2)".
std::string norm_text(const NormSpec& spec, ModelKind model);

/// "attn.pre: layer_norm -> rms_norm (blocks 0-3)" for sites and gains of blocks that both models have.
std::vector<std::string> site_changes(const ModelConfig& base, const ModelConfig& model);

}  // namespace normlab
