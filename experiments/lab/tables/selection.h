// Selects which evaluation of a run counts in a table.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "core/error.h"
#include "experiments/lab/tables/table_model.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// A metrics.jsonl that cannot be read: the fault of one run. Other InputErrors of selected_metric() concern the
/// request as a whole.
struct DamagedMetrics : InputError {
  using InputError::InputError;
};

/// The metric of a finished run by options.select:
/// - last: from the result;
/// - best_minival: at the evaluation with the best minival/accuracy, the first of equals;
/// - mean_last_k: the mean over the last options.last_k evaluations.
/// The latter two read metrics.jsonl of the result's attempt. None if the run lacks the metric; the names it has are
/// added to `known`. InputError without a minival, or with fewer than last_k evaluations.
std::optional<double> selected_metric(const TrialFolder& folder, const TrialResult& result, const TableOptions& options,
                                      std::set<std::string>& known);

}  // namespace normlab
