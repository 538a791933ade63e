// The options --where and --sort: which lines of a table are shown, and in which order.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/results/table_model.h"

namespace normlab {

/// The operand of a filter: a text, and its number if it is one.
struct FieldValue {
  std::string text;
  std::optional<double> number;
};

/// The names in expressions: axes by their path or its last key; "row" for the label; the columns mean, half_width, n,
/// planned, gain, gain_half_width, pairs, p and differs (0 or 1); and the numbers of seeds that are done, diverged,
/// failed, running, missing or unreadable.
class TableFields {
 public:
  explicit TableFields(std::vector<std::string> axes) : axes_(std::move(axes)) {}
  /// Of rows without results: the axes and "row" alone.
  static TableFields of_plan(std::vector<std::string> axes);
  /// None for an unknown name, or for a last key that two axes share.
  std::optional<std::size_t> find(std::string_view name) const;
  /// ` unknown axis or column "gian"; did you mean "gain"?`
  std::string unknown(std::string_view name) const;
  FieldValue value(const TableLine& line, std::size_t field) const;
  /// The axis with this name; none for a column.
  std::optional<std::size_t> find_axis(std::string_view name) const;

 private:
  std::vector<std::string> axes_;
  bool results_ = true;
};

/// Parses an expression such as `placement = dpn and (gain > 0.5 or "model.variant" != 'Ti/4')`. Operators:
/// = != < <= > >=, and, or, not, parentheses. Names and values with characters other than letters, digits and
/// _ . / + - : * are quoted. = and != compare numerically if both sides are numbers. < and > compare numbers only; a
/// row without the number does not match. InputError "--where: column 12: ..." shows the expression with a mark below
/// the place. "" matches every row. `fields` must outlive the result.
using LineTest = std::function<bool(const TableLine& line)>;
LineTest table_filter(const std::string& expression, const TableFields& fields);

/// Sorts by an axis or a column; "-gain" sorts in descending order. Rows without a value come last, and equal rows keep
/// their order. "" keeps the order. InputError for an unknown name.
void sort_lines(std::vector<TableLine>& lines, const std::string& key, const TableFields& fields);

/// The last key of an axis's path, or the path if two axes would share the key.
std::string axis_name(const std::vector<std::string>& axes, std::size_t axis);

/// The number that the whole text represents, if any.
std::optional<double> parse_number(std::string_view text);

}  // namespace normlab
