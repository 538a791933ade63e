// What a training's settings must be beside each other and beside the model.
#pragma once

#include "experiments/descriptor/field_reader.h"

namespace normlab {

/// Reports parts that do not divide a batch, factors of a compound schedule that are unknown or lack what they need,
/// and multipliers that fit no parameter of the (valid) model. `root` holds "train".
void check_training(FieldReader& reader, const JsonNode& root, const JsonPath& top, const TrialConfig& trial);

/// Reports settings that each fit their range and would mean something else beside the others than they say: levels
/// beyond timm's last, a crop larger than its image, a rule of early stopping that can never hold.
void check_meaning(FieldReader& reader, const JsonNode& root, const JsonPath& top, const TrialConfig& trial);

}  // namespace normlab
