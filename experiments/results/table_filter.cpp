#include "experiments/results/table_filter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/base/suggest.h"
#include "experiments/base/text_layout.h"

namespace normlab {
namespace {

constexpr std::array<std::string_view, 15> kColumns{
    "row", "mean",    "half_width", "n",        "planned", "gain",    "gain_half_width", "pairs",
    "p",   "differs", "done",       "diverged", "failed",  "running", "missing"};
constexpr std::string_view kUnreadable = "unreadable";
constexpr std::size_t kMaxDepth = 100;

std::string_view last_key(std::string_view path) { return path.substr(path.rfind('.') + 1); }

double count(const TableLine& line, SeedState state) {
  return double(
      std::count_if(line.seeds.begin(), line.seeds.end(), [&](const TableSeed& seed) { return seed.state == state; }));
}

FieldValue figure(const Figure& figure) { return {figure.text, figure.value}; }

FieldValue number(double value) { return {concat(value), value}; }

FieldValue column_value(const TableLine& line, std::string_view name) {
  if (name == "row") return {line.label, parse_number(line.label)};
  if (name == "mean") return figure(line.mean);
  if (name == "half_width") return figure(line.half_width);
  if (name == "gain") return figure(line.gain);
  if (name == "gain_half_width") return figure(line.gain_half_width);
  if (name == "p") return figure(line.p);
  if (name == "n") return number(double(line.n));
  if (name == "planned") return number(double(line.seeds.size()));
  if (name == "pairs") return number(double(line.pairs));
  if (name == "differs") return number(line.differs ? 1 : 0);
  if (name == "done") return number(count(line, SeedState::done));
  if (name == "diverged") return number(count(line, SeedState::diverged));
  if (name == "failed") return number(count(line, SeedState::failed));
  if (name == "running") return number(count(line, SeedState::running));
  if (name == "missing") return number(count(line, SeedState::missing) + count(line, SeedState::stopped));
  return number(count(line, SeedState::unreadable));
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

std::string axis_name(const std::vector<std::string>& axes, std::size_t axis) {
  const auto same = std::count_if(axes.begin(), axes.end(),
                                  [&](const std::string& path) { return last_key(path) == last_key(axes[axis]); });
  return same > 1 ? axes[axis] : std::string(last_key(axes[axis]));
}

std::optional<std::size_t> TableFields::find_axis(std::string_view name) const {
  for (std::size_t a = 0; a < axes_.size(); ++a)
    if (axes_[a] == name || axis_name(axes_, a) == name) return a;
  return std::nullopt;
}

std::optional<std::size_t> TableFields::find(std::string_view name) const {
  if (const auto axis = find_axis(name)) return axis;
  const auto column = std::find(kColumns.begin(), kColumns.end(), name);
  if (column != kColumns.end()) return axes_.size() + std::size_t(column - kColumns.begin());
  if (name == kUnreadable) return axes_.size() + kColumns.size();
  return std::nullopt;
}

std::string TableFields::unknown(std::string_view name) const {
  std::vector<std::string> axes;
  for (std::size_t a = 0; a < axes_.size(); ++a) axes.push_back(axis_name(axes_, a));
  std::vector<std::string_view> known(axes.begin(), axes.end());
  known.insert(known.end(), axes_.begin(), axes_.end());
  known.insert(known.end(), kColumns.begin(), kColumns.end());
  known.push_back(kUnreadable);
  std::string words = unknown_word("axis or column", name, known);
  if (words.find("did you mean") != words.npos) return words;
  axes.insert(axes.end(), kColumns.begin(), kColumns.end());
  return concat("unknown axis or column ", in_quotes(name), "; there are ", joined(axes, ", "), ", ", kUnreadable);
}

FieldValue TableFields::value(const TableLine& line, std::size_t field) const {
  if (field >= axes_.size())
    return column_value(line, field - axes_.size() < kColumns.size() ? kColumns[field - axes_.size()] : kUnreadable);
  return {line.axes[field], parse_number(line.axes[field])};
}

struct TableFilter::Node {
  enum class Kind : std::uint8_t { all_of, any_of, none_of, comparison } kind = Kind::comparison;
  std::vector<Node> parts;
  std::size_t field = 0;
  std::string comparison;
  FieldValue value;
};

/// Recursive descent; each method leaves `at_` behind what it took.
class TableFilter::Parser {
 public:
  Parser(const std::string& text, const TableFields& fields) : text_(text), fields_(fields) {}

  Node parse() {
    Node node = alternatives(0);
    skip_space();
    if (at_ < text_.size()) fail(at_, "expected \"and\", \"or\" or the end");
    return node;
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

  Node alternatives(std::size_t depth) {
    Node node{Node::Kind::any_of, {}, 0, {}, {}};
    do node.parts.push_back(conjunction(depth));
    while (take_word("or"));
    return node;
  }

  Node conjunction(std::size_t depth) {
    Node node{Node::Kind::all_of, {}, 0, {}, {}};
    do node.parts.push_back(term(depth));
    while (take_word("and"));
    return node;
  }

  Node term(std::size_t depth) {
    if (depth > kMaxDepth) fail(at_, "nested too deeply");
    if (take_word("not")) {
      Node node{Node::Kind::none_of, {}, 0, {}, {}};
      node.parts.push_back(term(depth + 1));
      return node;
    }
    if (skip_space(); at_ < text_.size() && text_[at_] == '(') {
      const std::size_t begin = at_++;
      Node node = alternatives(depth + 1);
      if (!take(')'))
        fail(at_ < text_.size() ? at_ : begin, at_ < text_.size() ? "expected \")\"" : "this bracket is not closed");
      return node;
    }
    skip_space();
    const std::size_t name_at = at_;
    const std::string name = operand("the name of an axis or a column");
    const auto field = fields_.find(name);
    if (!field) fail(name_at, fields_.unknown(name));
    Node node;
    node.field = *field;
    node.comparison = comparison_sign();
    skip_space();
    const std::size_t value_at = at_;
    node.value.text = operand("a value");
    node.value.number = parse_number(node.value.text);
    if (node.comparison != "=" && node.comparison != "!=" && !node.value.number)
      fail(value_at, concat(in_quotes(node.value.text), " is no number, and ", node.comparison, " compares numbers"));
    return node;
  }

  const std::string& text_;
  const TableFields& fields_;
  std::size_t at_ = 0;
};

TableFilter::TableFilter(const std::string& expression, const TableFields& fields) : fields_(fields) {
  if (!expression.empty()) root_ = std::make_unique<Node>(Parser(expression, fields).parse());
}

TableFilter::~TableFilter() = default;

bool TableFilter::holds(const Node& node, const TableFields& fields, const TableLine& line) {
  const auto part_holds = [&](const Node& part) { return holds(part, fields, line); };
  switch (node.kind) {
    case Node::Kind::all_of:
      return std::all_of(node.parts.begin(), node.parts.end(), part_holds);
    case Node::Kind::any_of:
      return std::any_of(node.parts.begin(), node.parts.end(), part_holds);
    case Node::Kind::none_of:
      return std::none_of(node.parts.begin(), node.parts.end(), part_holds);
    case Node::Kind::comparison:
      break;
  }
  const FieldValue have = fields.value(line, node.field);
  const bool numbers = have.number && node.value.number;
  if (node.comparison == "=" || node.comparison == "!=") {
    const bool equal = numbers ? *have.number == *node.value.number : have.text == node.value.text;
    return equal == (node.comparison == "=");
  }
  if (!numbers) return false;
  const double a = *have.number, b = *node.value.number;
  return node.comparison == "<" ? a < b : node.comparison == "<=" ? a <= b : node.comparison == ">" ? a > b : a >= b;
}

bool TableFilter::matches(const TableLine& line) const { return !root_ || holds(*root_, fields_, line); }

void sort_lines(std::vector<TableLine>& lines, const std::string& key, const TableFields& fields) {
  if (key.empty()) return;
  const bool descending = key.front() == '-';
  const std::string name = descending ? key.substr(1) : key;
  const auto field = fields.find(name);
  if (!field) throw InputError("--sort: " + fields.unknown(name));
  struct Keyed {
    FieldValue value;
    std::size_t line;
  };
  std::vector<Keyed> order;
  for (std::size_t i = 0; i < lines.size(); ++i) order.push_back({fields.value(lines[i], *field), i});
  const bool by_number =
      std::all_of(order.begin(), order.end(), [](const Keyed& k) { return k.value.text.empty() || k.value.number; });
  std::stable_sort(order.begin(), order.end(), [&](const Keyed& a, const Keyed& b) {
    const bool a_empty = a.value.text.empty() && !a.value.number, b_empty = b.value.text.empty() && !b.value.number;
    if (a_empty || b_empty) return !a_empty && b_empty;
    const Keyed &first = descending ? b : a, &second = descending ? a : b;
    return by_number ? *first.value.number < *second.value.number : first.value.text < second.value.text;
  });
  std::vector<TableLine> sorted;
  sorted.reserve(lines.size());
  for (const Keyed& k : order) sorted.push_back(std::move(lines[k.line]));
  lines = std::move(sorted);
}

}  // namespace normlab
