// What a table says of sweeps whose later trials depend on earlier results.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"

namespace normlab {

/// How many trials may follow, in words; "" if none.
std::string trials_to_come(const Experiment& experiment);

/// Sentences for the footer of a table, without line breaks: what was tuned or fixed, and for which row; chosen values
/// at the edge of their range; whether two-stage seeds reached the width; what is still to come.
std::vector<std::string> stage_notes(const Experiment& experiment);

}  // namespace normlab
