// What formulas give for zeros and for a random token, before any training.
#pragma once

#include <string>
#include <vector>

#include "nn/model/model_config.h"

namespace normlab {

/// A note for each formula that gives NaN or infinity there, with its site and the first such part of the text.
/// InputError if a part that does not read x does.
std::vector<std::string> formula_notes(const ModelConfig& model);

}  // namespace normlab
