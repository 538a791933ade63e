// Which lines of a table are shown and in which order: --where and --sort, over the axes of the sweep and the columns
// of the table.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/results/table_model.h"

namespace normlab {

/// What a filter compares: a text, and the number it stands for if it is one.
struct FieldValue {
  std::string text;
  std::optional<double> number;
};

/// The names that expressions know: axes by their path or its last key, "row" for the label, and the columns mean,
/// half_width, n, planned, gain, gain_half_width, pairs, p, differs (0 or 1), and how many seeds are done, diverged,
/// failed, running, missing, unreadable.
class TableFields {
 public:
  explicit TableFields(std::vector<std::string> axes) : axes_(std::move(axes)) {}
  /// None for a name that is not known, or for the last key of two axes.
  std::optional<std::size_t> find(std::string_view name) const;
  /// ` unknown axis or column "gian"; did you mean "gain"?`
  std::string unknown(std::string_view name) const;
  FieldValue value(const TableLine& line, std::size_t field) const;
  /// The axis that this name stands for; none for a column.
  std::optional<std::size_t> find_axis(std::string_view name) const;

 private:
  std::vector<std::string> axes_;
};

/// An expression such as `placement = dpn and (gain > 0.5 or "model.variant" != 'Ti/4')`. Operators: = != < <= > >=,
/// and, or, not, brackets; names and values with other characters than letters, digits and _ . / + - : * are quoted. =
/// and != compare numbers as numbers where both sides are some, < and > only numbers: a row without the number matches
/// neither.
/// InputError "--where: column 12: ..." with the expression and a mark below the place. "": everything matches.
/// `fields` has to outlive it.
using LineTest = std::function<bool(const TableLine& line)>;
LineTest table_filter(const std::string& expression, const TableFields& fields);

/// Sorts by an axis or a column, "-gain" from large to small; rows without a value come last, equal ones stay in order.
/// "": as they are. InputError for an unknown name.
void sort_lines(std::vector<TableLine>& lines, const std::string& key, const TableFields& fields);

/// The last key of an axis's path, unless two axes would share it.
std::string axis_name(const std::vector<std::string>& axes, std::size_t axis);

/// The number that a whole text is; none for other texts.
std::optional<double> parse_number(std::string_view text);

}  // namespace normlab
