// What single parameters have on top of an optimiser's rate and decay: multipliers by name, and a rate that falls with
// the depth of a layer.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/model_config.h"
#include "nn/parameters.h"

namespace normlab {

/// A factor for the parameters whose name fits a pattern of words and `*`.
struct Multiplier {
  std::string name;
  double lr = 1.0, weight_decay = 1.0;
  bool operator==(const Multiplier&) const = default;
};

/// Whether `name` is `pattern` with some text, or none, in place of each `*`.
bool fits(std::string_view pattern, std::string_view name);

/// Names of all parameters that a network of this (valid) configuration has.
std::vector<std::string> parameter_names(const ModelConfig& config);

/// Blocks that lie between a parameter and the head, counted as in BEiT's fine-tuning: 0 for the head and the norms
/// before it, 1 for the last block, depth + 1 for patches, positions and tokens. A Swin's blocks are counted over all
/// stages; what merges patches belongs to the block before it (Swin's own fine-tuning code).
std::int64_t layers_above(const ModelConfig& config, std::string_view parameter);

/// Whether a parameter lies before all blocks: patches, positions, tokens and the stem's norms.
bool precedes_all_blocks(std::string_view parameter);

/// Factors of each parameter: layer_decay^layers_above on the rate, times those of the last multiplier that fits.
/// InputError for a multiplier that fits no parameter.
std::vector<UpdateFactors> update_factors(const ModelConfig& config, std::span<const ParameterInfo> parameters,
                                          double layer_decay, std::span<const Multiplier> multipliers);

}  // namespace normlab
