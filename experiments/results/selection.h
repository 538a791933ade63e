// Which of a run's evaluations stands for it in a table.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "core/error.h"
#include "experiments/results/store.h"
#include "experiments/results/table_model.h"

namespace normlab {

/// A metrics.jsonl that cannot be read: a fault of one run, where other InputErrors of selected_metric() are of what
/// was asked for.
struct DamagedMetrics : InputError {
  using InputError::InputError;
};

/// The metric of a finished run by options.select:
/// - last: as the result has it;
/// - best_minival: at the evaluation whose minival/accuracy is best, the first of equals;
/// - mean_last_k: the mean over its last options.last_k evaluations.
/// The latter two read metrics.jsonl of the attempt that the result names. None where the run has no such metric;
/// names that it does have are added to `known`. InputError where the run has no minival, or fewer evaluations than
/// that.
std::optional<double> selected_metric(const TrialFolder& folder, const TrialResult& result, const TableOptions& options,
                                      std::set<std::string>& known);

}  // namespace normlab
