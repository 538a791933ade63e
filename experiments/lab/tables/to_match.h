// --to-match: after how much of its training a baseline is as good as a row at its end.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/tables/table_model.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// Where a curve of (place, value) first is as good as `target`, linear between its points; none if it never is.
std::optional<double> first_match(const std::vector<std::pair<double, double>>& curve, double target, bool lower);

/// Sets TableRow::match of each row that has a baseline other than itself, the heading of their column, and a sentence.
/// InputError for baselines without curves, with damaged ones or without the metric in them, for --to-match epochs of a
/// training that is not counted in epochs, and beside options it does not go with.
void add_matches(TableInput& input, const Experiment& e, const ResultStore& store, const TableOptions& options);

}  // namespace normlab
