// What an augmentation asks of the rest of a trial.
#pragma once

#include "experiments/descriptor/config.h"
#include "experiments/descriptor/field_reader.h"
#include "experiments/descriptor/json_tree.h"

namespace normlab {

/// Whether images may have another size than the model sees: both kinds of images are resized then.
bool resizes_images(const TrainConfig& train);

/// Notes settings of "train" that make no sense together, or beside the data.
void check_augment(FieldReader& reader, const JsonNode& root, const JsonPath& top, const TrialConfig& trial);

}  // namespace normlab
