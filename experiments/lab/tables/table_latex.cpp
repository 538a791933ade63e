// Tables as LaTeX.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "core/visible_text.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/table.h"

namespace normlab {
namespace {

constexpr std::size_t kPageRows = 45;  // a longer table continues on further pages

/// TeX's special characters, and the characters outside ASCII that tables use. Others stay UTF-8.
constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kLatex{{{"\\", "\\textbackslash{}"},
                                                                                {"&", "\\&"},
                                                                                {"%", "\\%"},
                                                                                {"$", "\\$"},
                                                                                {"#", "\\#"},
                                                                                {"_", "\\_"},
                                                                                {"{", "\\{"},
                                                                                {"}", "\\}"},
                                                                                {"~", "\\textasciitilde{}"},
                                                                                {"^", "\\textasciicircum{}"},
                                                                                {"<", "\\textless{}"},
                                                                                {">", "\\textgreater{}"},
                                                                                {"|", "\\textbar{}"},
                                                                                {"±", "$\\pm$"},
                                                                                {"†", "$\\dagger$"},
                                                                                {"…", "\\dots{}"},
                                                                                {"×", "$\\times$"},
                                                                                {"\n", " "}}};

std::string latex_escaped(std::string_view text) {
  std::string result;
  bool quoted = false;
  while (!text.empty()) {
    if (text.front() == '"') {
      result += quoted ? "''" : "``";
      quoted = !quoted;
      text.remove_prefix(1);
      continue;
    }
    const auto* found = kLatex.end();
    for (const auto* entry = kLatex.begin(); entry != kLatex.end(); ++entry)
      if (text.starts_with(entry->first)) found = entry;
    const Character next = first_character(text);
    const bool control = next.code < 0x20 || next.code == 0x7F;  // bytes that are not UTF-8 count as such
    const std::size_t bytes = found != kLatex.end() ? found->first.size() : std::max<std::size_t>(next.bytes, 1);
    result += found != kLatex.end() ? found->second : control ? "?" : text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return result;
}

bool is_decimal(const std::string& text) {
  return !text.empty() && text.find_first_not_of("+-.0123456789") == text.npos;
}
bool is_decimal(const TableCell& cell) { return cell.sort && is_decimal(cell.value); }

/// The digits that a column of numbers needs before and after the point.
struct Digits {
  std::size_t whole = 0, decimals = 0;
  bool sign = false;

  void see(const std::string& number) {
    const std::size_t begin = number.find_first_not_of("+-"), point = std::min(number.find('.'), number.size());
    sign = sign || begin > 0;
    whole = std::max(whole, point - begin);
    decimals = std::max(decimals, point == number.size() ? 0 : number.size() - point - 1);
  }
  std::string column() const { return fmt::format("S[table-format={}{}.{}]", sign ? "-" : "", whole, decimals); }
};

/// A column of the table: words, or a number, "±" and its half width, and what follows them. That is there with each
/// half width, to take the rest of the heading's width.
struct LatexColumn {
  std::size_t index = 0;  // in TableModel::columns
  Digits value{}, half_width{};
  bool tail = false;

  bool numbers() const { return value.whole > 0; }
  std::size_t width() const { return numbers() ? 1 + (half_width.whole > 0 ? 2 : 0) + (tail ? 1 : 0) : 1; }
  std::string layout() const {
    if (!numbers()) return "l";
    return value.column() + (half_width.whole > 0 ? "@{\\,}c@{\\,}" + half_width.column() : "") +
           (tail ? "@{\\,}l" : "");
  }
};

std::string spanned(std::size_t columns, const char* layout, const std::string& text) {
  if (text.empty()) return std::string(columns - 1, '&');
  return columns == 1 && *layout == 'c' ? "{" + text + "}"
                                        : fmt::format("\\multicolumn{{{}}}{{{}}}{{{}}}", columns, layout, text);
}

class LatexTable {
 public:
  explicit LatexTable(const TableModel& model) : model_(model) {
    find_common_count();
    for (std::size_t c = 0; c < model.columns.size(); ++c)
      if (model.columns[c].key != "notes") columns_.push_back(column(c));
  }

  std::string write(const TableLayout& asked) {
    const std::string title = (asked.caption.empty() ? "" : "\\caption{" + latex_escaped(asked.caption) + "}") +
                              (asked.label.empty() ? "" : "\\label{" + asked.label + "}");
    const bool is_long = model_.grid.size() > kPageRows, floats = !is_long && (asked.wide || !title.empty());
    const std::string environment = asked.wide ? "table*" : "table";
    std::string layout;
    for (const LatexColumn& column : columns_) layout += column.layout();
    const bool numbers = layout.find("S[") != layout.npos;
    std::string text =
        floats ? "\\begin{" + environment + "}\n\\centering\n" + title + "\\medskip\n" : "\\begingroup\n";
    if (numbers) text += "\\sisetup{detect-weight,retain-explicit-plus}\n";
    const std::string kind = is_long ? "longtable" : "tabular", top = "\\toprule\n" + heading() + "\\midrule\n";
    text += fmt::format("{}\\begin{{{}}}{{{}}}\n", is_long || floats ? "" : "\\noindent", kind, layout);
    if (is_long && !title.empty()) text += title + "\\\\\n";
    text += top;
    if (is_long)
      text += "\\endfirsthead\n" + top + "\\endhead\n\\midrule\n" +
              spanned(width(), "r", "continued on the next page") + " \\\\\n\\endfoot\n\\bottomrule\n\\endlastfoot\n";
    for (const TableGridRow& row : model_.grid) {
      std::vector<std::string> cells;
      for (const LatexColumn& column : columns_) cells.push_back(cell(column, row.cells[column.index]));
      // A "[" or "*" at the start of the next line would be parsed as an argument of "\\".
      text += (cells.front().find_first_of("[*") == 0 ? "{}" : "") + joined(cells, " & ") + " \\\\\n";
    }
    if (!is_long) text += "\\bottomrule\n";
    text += fmt::format("\\end{{{}}}\n", kind) + notes();
    return text + (floats ? "\\end{" + environment + "}\n" : "\\endgroup\n");
  }

 private:
  /// "(3)" if it follows every number that a count follows.
  void find_common_count() {
    std::set<std::string> counts;
    for (const TableGridRow& row : model_.grid)
      for (const TableCell& cell : row.cells)
        if (is_decimal(cell) && cell.tail.starts_with('(')) counts.insert(cell.tail.substr(0, cell.tail.find(')') + 1));
    if (counts.size() == 1 && counts.begin()->find('/') == std::string::npos) count_ = *counts.begin();
  }

  std::string tail_of(const TableCell& cell) const {
    if (count_.empty() || !cell.tail.starts_with(count_)) return cell.tail;
    return cell.tail.substr(std::min(cell.tail.size(), count_.size() + 1));
  }

  LatexColumn column(std::size_t index) const {
    LatexColumn found{index};
    if (model_.columns[index].kind != ColumnKind::number) return found;
    for (const TableGridRow& row : model_.grid) {
      const TableCell& cell = row.cells[index];
      if (!is_decimal(cell)) continue;
      found.value.see(cell.value);
      if (is_decimal(cell.half_width)) found.half_width.see(cell.half_width);
    }
    found.tail =
        found.half_width.whole > 0 || std::any_of(model_.grid.begin(), model_.grid.end(), [&](const auto& row) {
          return is_decimal(row.cells[index]) && !(tail_of(row.cells[index]) + row.cells[index].note).empty();
        });
    return found;
  }

  std::size_t width() const {
    std::size_t sum = 0;
    for (const LatexColumn& column : columns_) sum += column.width();
    return sum;
  }

  /// "lr" above "0.0003" and "0.003" if all headings of a grid begin so.
  std::string heading() const {
    std::string axis;
    std::size_t across = 0, before = 0, behind = 0;
    bool same = true;
    for (const LatexColumn& column : columns_) {
      const TableColumn& each = model_.columns[column.index];
      if (!each.key.starts_with("col:")) {
        (across == 0 ? before : behind) += column.width();
        continue;
      }
      const std::string name = each.heading.substr(0, each.heading.find('=') + 1);
      same = same && (axis.empty() || name == axis) && !name.empty() && each.heading.find(", ") == std::string::npos;
      axis = name;
      across += column.width();
    }
    const bool two = across > 0 && same;
    std::string text;
    if (two)
      text = fmt::format("{}{}{} \\\\\n\\cmidrule{{{}-{}}}\n", std::string(before, '&'),
                         spanned(across, "c", latex_escaped(axis.substr(0, axis.size() - 1))), std::string(behind, '&'),
                         before + 1, before + across);
    std::vector<std::string> cells;
    for (const LatexColumn& column : columns_) {
      const TableColumn& each = model_.columns[column.index];
      const std::string words = two && each.key.starts_with("col:") ? each.heading.substr(axis.size()) : each.heading;
      cells.push_back(column.numbers() ? spanned(column.width(), "c", latex_escaped(words)) : latex_escaped(words));
    }
    return text + joined(cells, " & ") + " \\\\\n";
  }

  /// A mark for the note below the table; equal notes share one.
  std::string mark(const std::string& note) {
    if (note.empty()) return "";
    auto found = std::find(notes_.begin(), notes_.end(), note);
    if (found == notes_.end()) found = notes_.insert(notes_.end(), note);
    return mark_text(std::size_t(found - notes_.begin()));
  }

  /// Letters, or numbers beside --letters and where there are too many.
  std::string mark_text(std::size_t note) const {
    const bool letters = std::any_of(model_.columns.begin(), model_.columns.end(),
                                     [](const TableColumn& column) { return column.key == "letters"; });
    return "\\textsuperscript{" +
           (letters || note >= 26 ? fmt::format("{}", note + 1) : std::string(1, char('a' + note))) + "}";
  }

  std::string cell(const LatexColumn& column, const TableCell& cell) {
    if (!column.numbers() || !is_decimal(cell)) {
      const std::string words =
          (cell.absent ? cell.diverged ? "div." : "--" : latex_escaped(cell.text())) + mark(cell.note);
      return column.numbers() ? spanned(column.width(), cell.absent && column.width() > 1 ? "l" : "c", words) : words;
    }
    std::string text = (cell.bold ? "\\bfseries " : "") + cell.value, tail = tail_of(cell);
    if (const std::size_t end = tail.find(']'); tail.starts_with('[') && end != tail.npos)
      tail = "$" + tail.substr(0, end + 1) + "$" + latex_escaped(tail.substr(end + 1));
    else
      tail = latex_escaped(tail);
    tail += mark(cell.note);
    if (column.half_width.whole > 0) {
      if (cell.tail.starts_with('[')) return text + " & " + spanned(column.width() - 1, "@{\\,}l", tail);
      text += is_decimal(cell.half_width) ? " & $\\pm$ & " + cell.half_width : " & &";
    }
    return text + (column.tail ? " & " + tail : "");
  }

  /// The notes of the marks, then the footer, as one paragraph.
  std::string notes() const {
    std::string text;
    for (std::size_t i = 0; i < notes_.size(); ++i) text += mark_text(i) + "~" + latex_escaped(notes_[i]) + ".\n";
    const std::string count = count_.empty() ? "" : " " + count_;
    bool said = false;
    for (const TableSentence& sentence : model_.footer) {
      std::string words = sentence.text;
      if (sentence.key == "note") continue;  // marked in the cells
      if (const std::size_t at = words.find(count + ":"); sentence.key == "interval" && at != words.npos) {
        words.erase(at, count.size());
        said = true;
      }
      text += latex_escaped(words) + "\n";
    }
    if (!count_.empty() && !said)
      text += fmt::format("Each value is of {}.\n", plural(count_.substr(1, count_.size() - 2), "seed"));
    if (text.empty()) return "";
    return "\\par\\medskip\n{\\footnotesize\\leftskip=0pt\\rightskip=0pt\\parfillskip=0pt plus 1fil\\noindent\n" +
           text + "\\par}\n";
  }

  const TableModel& model_;
  std::string count_;
  std::vector<LatexColumn> columns_;
  std::vector<std::string> notes_;
};

/// A comment with the packages that the text needs, and rules for documents without booktabs. OT1, TeX's default
/// encoding, lacks some letters of Latin-1 and Latin Extended-A; pdflatex knows few others, even in T1.
std::string latex_preamble(const std::string& table) {
  std::string_view text = table;
  constexpr std::string_view kNotInT1 = "ĦħĸĿŀŉŦŧ";
  bool letters = false;
  std::string unknown;
  while (!text.empty()) {
    const Character next = first_character(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(next.bytes, 1));
    letters = letters || next.bytes > 1;
    if ((next.code > 0x17E || kNotInT1.find(character) != kNotInT1.npos) && next.bytes > 1 &&
        unknown.find(character) == unknown.npos)
      unknown += character;
    text.remove_prefix(character.size());
  }
  std::string comment = "% In the preamble: \\usepackage{booktabs} for better rules";
  if (table.find("\\sisetup") != table.npos) comment += ", \\usepackage{siunitx} for aligned numbers";
  if (table.find("{longtable}") != table.npos)
    comment += ", \\usepackage{longtable} for tables of several pages, which stand in one column";
  if (!unknown.empty())
    comment += fmt::format("; by lualatex or xelatex, a font that has {}, which pdflatex lacks", unknown);
  else if (letters)
    comment += ", \\usepackage[T1]{fontenc} for letters";
  return comment +
         "\n\\providecommand{\\toprule}{\\hline}\\providecommand{\\midrule}{\\hline}"
         "\\providecommand{\\bottomrule}{\\hline}" +
         (table.find("\\cmidrule") == table.npos ? "\n" : "\\providecommand{\\cmidrule}{\\cline}\n");
}

}  // namespace

std::string render_table_latex(const TableModel& model, const TableLayout& layout) {
  const std::string text = LatexTable(model).write(layout);
  return latex_preamble(text) + text;
}

}  // namespace normlab
