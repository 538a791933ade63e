// Columns and cells of a table whose lines are final: a line a row, or some axes down and others across.
#pragma once

#include "experiments/results/table_model.h"

namespace normlab {

/// Keeps of each line's axes those that differ between the lines, and fills columns, grid and, where axes stand in
/// columns, the notes in the footer. `axes` are the paths that the lines' axes stand for. InputError for an axis of
/// --rows or --cols that is not there.
void lay_out_table(TableModel& model, const std::vector<std::string>& axes, const TableOptions& options);

}  // namespace normlab
