// What reading the data would refuse, as far as it is known before.
#pragma once

#include "experiments/descriptor/field_reader.h"

namespace normlab {

/// Reports slices that are none, are empty or past the end, or share images; classes without an image; a batch of more
/// images than there are; a training without a step; means and deviations that are not one a channel. `root` as for
/// read_trial.
void check_data(FieldReader& reader, const JsonNode& root, const JsonPath& top, const TrialConfig& trial);

}  // namespace normlab
