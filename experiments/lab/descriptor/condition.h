// Conditions on the rows of a sweep, as --where takes them: `placement = dpn and lr > 0.001`.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// The operand of a condition: a text, and its number if it is one.
struct FieldValue {
  std::string text;
  std::optional<double> number;
};

/// What a condition may name: axes by their path or its last key, then columns. A field is its place in this order.
class FieldNames {
 public:
  FieldNames(std::vector<std::string> axes, std::vector<std::string_view> columns)
      : axes_(std::move(axes)), columns_(std::move(columns)) {}
  /// The axes and "row": what is known before there are results.
  static FieldNames of_plan(std::vector<std::string> axes) { return {std::move(axes), {"row"}}; }
  std::size_t axes() const { return axes_.size(); }
  /// None for an unknown name, or for a last key that two axes share.
  std::optional<std::size_t> find(std::string_view name) const;
  /// The axis with this name; none for a column.
  std::optional<std::size_t> find_axis(std::string_view name) const;
  /// ` unknown axis or column "gian"; did you mean "gain"?`
  std::string unknown(std::string_view name) const;

 private:
  std::vector<std::string> axes_;
  std::vector<std::string_view> columns_;
};

/// Called with the value of each field of a row.
using ValueOf = std::function<FieldValue(std::size_t field)>;
using Condition = std::function<bool(const ValueOf& value)>;

/// Parses an expression such as `placement = dpn and (gain > 0.5 or "model.variant" != 'Ti/4')`. Operators:
/// = != < <= > >=, and, or, not, parentheses. Names and values with characters other than letters, digits and
/// _ . / + - : * are quoted. = and != compare numerically if both sides are numbers. < and > compare numbers only; a
/// row without the number does not match. InputError "--where: column 12: ..." shows the expression with a mark below
/// the place. "" holds for every row.
Condition parse_condition(const std::string& expression, const FieldNames& names);

/// The end of an axis's path from a key on that no other axis shares, as short as possible: "lr", "attn.pre.momentum".
std::string axis_name(const std::vector<std::string>& axes, std::size_t axis);

/// The number that the whole text represents, if any.
std::optional<double> parse_number(std::string_view text);

}  // namespace normlab
