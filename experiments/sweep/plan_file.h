// OUT/experiments/<stem>/plan.json: which trials an experiment is made of, for people and for tools that read results.
#pragma once

#include <string>

#include "experiments/descriptor/experiment.h"

namespace normlab {

/// About, axes, rows with their labels and baseline, and the trials' ids and seeds, as JSON.
std::string plan_json(const Experiment& experiment);

}  // namespace normlab
