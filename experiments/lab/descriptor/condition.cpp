#include "experiments/lab/descriptor/condition.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/text_layout.h"

namespace normlab {
std::optional<double> parse_number(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

std::string axis_name(const std::vector<std::string>& axes, std::size_t axis) {
  const std::string& path = axes[axis];
  for (std::size_t dot = path.rfind('.'); dot != path.npos && dot > 0; dot = path.rfind('.', dot - 1)) {
    const std::string_view end = std::string_view(path).substr(dot);
    const auto same = [&](const std::string& other) { return concat(".", other).ends_with(end); };
    if (std::count_if(axes.begin(), axes.end(), same) == 1) return std::string(end.substr(1));
  }
  return path;
}

std::optional<std::size_t> FieldNames::find_axis(std::string_view name) const {
  for (std::size_t a = 0; a < axes_.size(); ++a)
    if (axes_[a] == name || axis_name(axes_, a) == name) return a;
  return std::nullopt;
}

std::optional<std::size_t> FieldNames::find(std::string_view name) const {
  if (const auto axis = find_axis(name)) return axis;
  const auto column = std::find(columns_.begin(), columns_.end(), name);
  return column == columns_.end() ? std::nullopt : std::optional(axes_.size() + std::size_t(column - columns_.begin()));
}

std::string FieldNames::unknown(std::string_view name) const {
  std::vector<std::string> shown;
  for (std::size_t a = 0; a < axes_.size(); ++a) shown.push_back(axis_name(axes_, a));
  shown.insert(shown.end(), columns_.begin(), columns_.end());
  std::vector<std::string_view> known(shown.begin(), shown.end());
  known.insert(known.begin() + std::ptrdiff_t(axes_.size()), axes_.begin(), axes_.end());
  std::string words = unknown_word("axis or column", name, known);
  if (words.find("did you mean") != words.npos) return words;
  return concat("unknown axis or column ", in_quotes(name), "; known are ", joined(shown, ", "));
}

namespace {

/// Recursive descent; each method leaves `at_` after the text it consumed.
class ConditionParser {
 public:
  ConditionParser(const std::string& text, const FieldNames& names) : text_(text), names_(names) {}

  Condition parse() {
    Condition test = alternatives(0);
    skip_space();
    if (at_ < text_.size()) fail(at_, "expected \"and\", \"or\" or the end of the condition");
    return test;
  }

 private:
  [[noreturn]] void fail(std::size_t byte, const std::string& what) const {
    constexpr std::size_t kMostBefore = 120;
    const std::size_t column = display_width(std::string_view(text_).substr(0, byte));
    const std::string before = shorten_middle(visible_line(text_.substr(0, byte)), kMostBefore);
    const std::string behind = shorten_middle(visible_line(text_.substr(byte)), kMostShown - kMostBefore);
    throw InputError(concat("--where: column ", column + 1, ": ", what, "\n  ", before, behind, "\n  ",
                            std::string(display_width(before), ' '), '^'));
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }

  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_./+-:*").find(c) != std::string_view::npos || static_cast<unsigned char>(c) >= 0x80;
  }

  std::string_view peek_word() {
    skip_space();
    std::size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return std::string_view(text_).substr(at_, end - at_);
  }

  bool take_word(std::string_view word) {
    if (peek_word() != word) return false;
    at_ += word.size();
    return true;
  }

  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string operand(const char* what) {
    skip_space();
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const std::size_t begin = at_, end = text_.find(text_[at_], at_ + 1);
      if (end == text_.npos) fail(begin, "this quote is not closed");
      at_ = end + 1;
      return text_.substr(begin + 1, end - begin - 1);
    }
    const std::string_view word = peek_word();
    if (word.empty()) fail(at_, concat("expected ", what));
    at_ += word.size();
    return std::string(word);
  }

  std::string comparison_sign() {
    skip_space();
    for (const char* sign : {"==", "!=", "<=", ">=", "=", "<", ">"}) {
      const std::string_view view(sign);
      if (text_.compare(at_, view.size(), view) != 0) continue;
      at_ += view.size();
      return sign == std::string_view("==") ? "=" : sign;
    }
    fail(at_, "expected one of = != < <= > >=");
  }

  Condition alternatives(std::size_t depth) {
    std::vector<Condition> parts;
    do parts.push_back(conjunction(depth));
    while (take_word("or"));
    return [parts](const ValueOf& value) {
      return std::any_of(parts.begin(), parts.end(), [&](const Condition& holds) { return holds(value); });
    };
  }

  Condition conjunction(std::size_t depth) {
    std::vector<Condition> parts;
    do parts.push_back(term(depth));
    while (take_word("and"));
    return [parts](const ValueOf& value) {
      return std::all_of(parts.begin(), parts.end(), [&](const Condition& holds) { return holds(value); });
    };
  }

  Condition term(std::size_t depth) {
    constexpr std::size_t kMaxDepth = 100;
    if (depth > kMaxDepth) fail(at_, "nested too deeply");
    if (take_word("not")) return [holds = term(depth + 1)](const ValueOf& value) { return !holds(value); };
    if (skip_space(); at_ < text_.size() && text_[at_] == '(') {
      const std::size_t begin = at_++;
      Condition test = alternatives(depth + 1);
      if (!take(')'))
        fail(at_ < text_.size() ? at_ : begin, at_ < text_.size() ? "expected \")\"" : "this bracket is not closed");
      return test;
    }
    skip_space();
    const std::size_t name_at = at_;
    const std::string name = operand("the name of an axis or a column");
    const auto field = names_.find(name);
    if (!field) fail(name_at, names_.unknown(name));
    const std::string sign = comparison_sign();
    skip_space();
    const std::size_t value_at = at_;
    const std::string text = operand("a value");
    const FieldValue wanted{text, parse_number(text)};
    const bool equality = sign == "=" || sign == "!=";
    if (!equality && !wanted.number)
      fail(value_at, concat(in_quotes(text), " is not a number, but ", sign, " compares numbers"));
    return [field = *field, sign, wanted, equality](const ValueOf& value) {
      const FieldValue have = value(field);
      const bool numbers = have.number && wanted.number;
      if (equality) return (numbers ? *have.number == *wanted.number : have.text == wanted.text) == (sign == "=");
      if (!numbers) return false;
      const double a = *have.number, b = *wanted.number;
      return sign == "<" ? a < b : sign == "<=" ? a <= b : sign == ">" ? a > b : a >= b;
    };
  }

  const std::string& text_;
  const FieldNames& names_;
  std::size_t at_ = 0;
};

}  // namespace

Condition parse_condition(const std::string& expression, const FieldNames& names) {
  if (expression.empty()) return [](const ValueOf&) { return true; };
  return ConditionParser(expression, names).parse();
}

}  // namespace normlab
