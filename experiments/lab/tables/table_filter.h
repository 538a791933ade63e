// The options --where and --sort: which lines of a table are shown, and in which order.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "experiments/lab/descriptor/condition.h"
#include "experiments/lab/tables/table_model.h"

namespace normlab {

/// The axes, and the columns of a table: "row" for the label; mean, half_width, n, planned, gain, gain_half_width,
/// pairs, p and differs (0 or 1); and the numbers of seeds that are done, diverged, failed, running, missing or
/// unreadable.
FieldNames table_fields(std::vector<std::string> axes);

/// The value of a field of table_fields(), or of FieldNames::of_plan().
FieldValue field_value(const TableLine& line, const FieldNames& names, std::size_t field);

/// parse_condition() for the lines of a table.
using LineTest = std::function<bool(const TableLine& line)>;
LineTest table_filter(const std::string& expression, const FieldNames& names);

/// Sorts by an axis or a column; "-gain" sorts in descending order. Rows without a value come last, and equal rows keep
/// their order. "" keeps the order. InputError for an unknown name.
void sort_lines(std::vector<TableLine>& lines, const std::string& key, const FieldNames& fields);

}  // namespace normlab
