// What single parameters have on top of an optimiser's rate and decay: multipliers by name, and a rate that falls with
// the depth of a layer.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/update_settings.h"
#include "nn/model_config.h"
#include "nn/parameters.h"
#include "nn/train_settings.h"

namespace normlab {

/// Whether `name` is `pattern` with some text, or none, in place of each `*`.
bool fits(std::string_view pattern, std::string_view name);

/// Names of all parameters that a network of this (valid) configuration has.
std::vector<std::string> parameter_names(const ModelConfig& config);

/// Factors of each parameter: on the rate layer_decay once for each layer above its own (Place::layer), none above the
/// head and the norms before it; times those of the last multiplier that fits.
/// InputError for a multiplier that fits no parameter.
std::vector<UpdateFactors> update_factors(const ModelConfig& config, std::span<const ParameterInfo> parameters,
                                          double layer_decay, std::span<const Multiplier> multipliers);

}  // namespace normlab
