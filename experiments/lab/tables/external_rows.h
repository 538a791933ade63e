// Rows of a table that show numbers of other programs: a descriptor's "external".
#pragma once

#include <string_view>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/statistics/student.h"
#include "experiments/lab/tables/table_model.h"

namespace normlab {

/// TableLine::procedure of these rows.
inline constexpr std::string_view kUnpaired = "Welch's t";

/// Appends a row for each label and row of `e.external` with values of the table's metric, and sentences about them. The
/// row's label and its first axis begin with the label: "timm: pre_pre". Call it last: nothing else may count
/// these rows.
void add_external_rows(TableInput& input, const Experiment& e, const std::string& metric);

/// The gain of a line over ours of the same name, unpaired, on its own. `values` are those of all lines; `direction` is
/// -1 where lower is better.
void compare_external(TableLine& line, const std::vector<SeedValues>& values, double direction, double level);

}  // namespace normlab
