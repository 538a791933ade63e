// The option --columns: what a row's network costs, and what its runs took.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/tables/table_model.h"

namespace normlab {

/// InputError for a name that is no column, with a suggestion.
void require_row_columns(const std::vector<std::string>& names);

/// Sets TableLine::measured, and adds a column for each name before the notes, and sentences to the footer. A row of a
/// grid shows parameters and macs if all its lines have the same, and means over the runs of all of them.
void add_row_columns(TableModel& model, const std::vector<std::string>& names);

/// Parameters and macs of a row of a mean or of several rates: those that all of these rows have.
void take_common_cost(TableRow& row, const std::vector<TableRow>& rows, const std::vector<std::size_t>& of);

}  // namespace normlab
