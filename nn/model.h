// Any of the models.
#pragma once

#include <memory>

#include "nn/any_model.h"
#include "nn/model_config.h"

namespace normlab {

/// Declares all parameters. Throws InputError with every problem of `config`.
std::unique_ptr<Model> make_model(ParameterSet& parameters, const ModelConfig& config);
/// Fills every parameter; the rules are those of nn/init.h and nn/swin.h.
void initialise(ParameterSet& parameters, const ModelConfig& config, std::uint64_t seed);

}  // namespace normlab
