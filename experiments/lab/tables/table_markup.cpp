// Tables as Markdown, LaTeX and HTML.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/visible_text.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/markup.h"
#include "experiments/lab/tables/table.h"

namespace normlab {
namespace {

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

/// Numbers in math mode, which sets a proper minus sign.
std::string latex_cell(const TableCell& cell) {
  if (!cell.sort || cell.value.find_first_not_of("+-.0123456789") != cell.value.npos) return latex_escaped(cell.text());
  std::string text = "$" + cell.value + (cell.half_width.empty() ? "" : " \\pm " + cell.half_width) + "$";
  if (!cell.tail.empty()) text += " " + latex_escaped(cell.tail);
  return text;
}

/// A comment with the packages that the text needs, and rules for documents without booktabs. OT1, TeX's default
/// encoding, lacks some letters of Latin-1 and Latin Extended-A; pdflatex knows few others, even in T1.
std::string latex_preamble(std::string_view text) {
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
  if (!unknown.empty())
    comment += fmt::format("; by lualatex or xelatex, a font that has {}, which pdflatex lacks", unknown);
  else if (letters)
    comment += ", \\usepackage[T1]{fontenc} for letters";
  return comment +
         "\n\\providecommand{\\toprule}{\\hline}\\providecommand{\\midrule}{\\hline}"
         "\\providecommand{\\bottomrule}{\\hline}\n";
}

}  // namespace

std::string render_table_markdown(const TableModel& model) {
  std::string text = model.about.empty() ? "" : markdown_cell(model.about) + "\n\n", rule = "|";
  text += "|";
  for (const TableColumn& column : model.columns) {
    text += fmt::format(" {} |", markdown_cell(column.heading));
    rule += column.kind == ColumnKind::number ? "---:|" : ":---|";
  }
  text += "\n" + rule + "\n";
  for (const TableGridRow& row : model.grid) {
    text += "|";
    for (const TableCell& cell : row.cells) text += fmt::format(" {} |", markdown_cell(cell.text()));
    text += "\n";
  }
  text += "\n";
  for (const TableSentence& sentence : model.footer) text += "- " + markdown_cell(sentence.text) + "\n";
  return text;
}

std::string render_table_latex(const TableModel& model, const std::string& caption, const std::string& label) {
  const bool floats = !caption.empty() || !label.empty();
  std::string text;
  if (floats) text += "\\begin{table}\n\\centering\n";
  if (!caption.empty()) text += "\\caption{" + latex_escaped(caption) + "}\n";
  if (!label.empty()) text += "\\label{" + label + "}\n";
  text += "\\begin{tabular}{";
  for (const TableColumn& column : model.columns) text += column.kind == ColumnKind::number ? 'r' : 'l';
  text += "}\n\\toprule\n";
  std::vector<std::string> cells;
  for (const TableColumn& column : model.columns) cells.push_back(latex_escaped(column.heading));
  text += joined(cells, " & ") + " \\\\\n\\midrule\n";
  for (const TableGridRow& row : model.grid) {
    cells.clear();
    for (std::size_t c = 0; c < row.cells.size(); ++c)
      cells.push_back(model.columns[c].kind == ColumnKind::number ? latex_cell(row.cells[c])
                                                                  : latex_escaped(row.cells[c].text()));
    // A "[" or "*" at the start of the next line would be parsed as an argument of "\\".
    text += (cells.front().find_first_of("[*") == 0 ? "{}" : "") + joined(cells, " & ") + " \\\\\n";
  }
  text += "\\bottomrule\n\\end{tabular}\n";
  if (!model.footer.empty()) text += "\\par\\medskip\n{\\footnotesize\n";
  for (const TableSentence& sentence : model.footer) text += latex_escaped(sentence.text) + "\\par\n";
  if (!model.footer.empty()) text += "}\n";
  if (floats) text += "\\end{table}\n";
  return latex_preamble(text) + text;
}

std::string render_table_html(const TableModel& model) {
  std::string text = fmt::format("<table class=\"normlab-table\" data-metric=\"{}\">\n", escaped(model.metric));
  if (!model.about.empty()) text += fmt::format("<caption>{}</caption>\n", escaped(model.about));
  text += "<thead>\n<tr>";
  for (const TableColumn& column : model.columns)
    text += fmt::format("<th scope=\"col\" data-key=\"{}\"{}>{}</th>", escaped(column.key),
                        column.kind == ColumnKind::number ? " class=\"number\"" : "", escaped(column.heading));
  text += "</tr>\n</thead>\n<tbody>\n";
  for (const TableGridRow& row : model.grid) {
    std::vector<std::string> places;
    for (const std::size_t line : row.lines) places.push_back(fmt::format("{}", model.lines[line].plan_index));
    text += fmt::format("<tr{} data-rows=\"{}\">", row.is_baseline ? " class=\"baseline\"" : "", joined(places, " "));
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const bool label = model.columns[c].kind == ColumnKind::label;
      const TableCell& cell = row.cells[c];
      text += label ? "<th scope=\"row\"" : "<td";
      if (model.columns[c].kind == ColumnKind::number) text += " class=\"number\"";
      if (cell.sort) text += fmt::format(" data-sort=\"{}\"", *cell.sort);
      text += fmt::format(">{}{}", escaped(cell.text()), label ? "</th>" : "</td>");
    }
    text += "</tr>\n";
  }
  text += "</tbody>\n<tfoot>\n";
  for (const TableSentence& sentence : model.footer)
    text += fmt::format("<tr><td colspan=\"{}\" data-note=\"{}\">{}</td></tr>\n", model.columns.size(),
                        escaped(sentence.key), escaped(sentence.text));
  return text + "</tfoot>\n</table>\n";
}

}  // namespace normlab
