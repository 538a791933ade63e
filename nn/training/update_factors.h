// What individual parameters have on top of the optimiser's rate and decay: multipliers by name, and a rate that
// decreases with the depth of a layer.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/update_settings.h"
#include "nn/model/model_config.h"
#include "nn/model/parameters.h"
#include "nn/training/train_settings.h"

namespace normlab {

/// The factors of each parameter. The rate is multiplied by layer_decay once for each layer above the parameter's own
/// (Place::layer); the head and the norms before it have none above. Both are multiplied by the last matching
/// multiplier. Throws InputError for a multiplier that matches no parameter.
std::vector<UpdateFactors> update_factors(const ModelConfig& config, std::span<const ParameterInfo> parameters,
                                          double layer_decay, std::span<const Multiplier> multipliers);

}  // namespace normlab
