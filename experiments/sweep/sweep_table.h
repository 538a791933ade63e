// The table of an experiment out of its plan and what is on disk.
#pragma once

#include <string>

#include "experiments/descriptor/experiment.h"
#include "experiments/results/store.h"
#include "experiments/results/table.h"

namespace normlab {

/// Rows from the plan, so that running, failed, diverged and missing trials show. `metric` as in a result's metrics.
/// InputError for a metric that no finished trial has (naming those there are).
std::string sweep_table(const Experiment& experiment, const ResultStore& store, const std::string& metric,
                        TableFormat format);

}  // namespace normlab
