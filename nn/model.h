// Constructs any of the models.
#pragma once

#include <memory>

#include "nn/any_model.h"
#include "nn/model_config.h"

namespace normlab {

/// Declares all parameters. Throws InputError with every problem of `config`.
std::unique_ptr<Model> make_model(ParameterSet& parameters, const ModelConfig& config);

}  // namespace normlab
