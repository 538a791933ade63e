// Short names of a sweep's rows: "dpn, patch_size 4".
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"

namespace normlab {

/// By position in the plan. A name has the placement and the values that differ between rows, without those that
/// follow from others (the number of heads from the width). Of an object only its "name", "dialect" or "kind" is
/// shown, if that suffices to tell the rows apart.
std::vector<std::string> row_names(const Experiment& experiment);

}  // namespace normlab
