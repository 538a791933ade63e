// Tables as Markdown and HTML.
#include <fmt/core.h>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/markup.h"
#include "experiments/lab/tables/table.h"

namespace normlab {
namespace {

/// The value between these marks if it is bold.
std::string with_bold(const TableCell& cell, const char* open, const char* close,
                      std::string (*escape)(std::string_view)) {
  if (!cell.bold || cell.value.empty()) return escape(cell.text());
  TableCell rest = cell;
  rest.value = "";
  const std::string after = rest.text();
  return open + escape(cell.value) + close + (after.empty() ? "" : " " + escape(after));
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
    for (const TableCell& cell : row.cells) text += fmt::format(" {} |", with_bold(cell, "**", "**", markdown_cell));
    text += "\n";
  }
  text += "\n";
  for (const TableSentence& sentence : model.footer) text += "- " + markdown_cell(sentence.text) + "\n";
  return text;
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
      text += fmt::format(">{}{}", with_bold(cell, "<strong>", "</strong>", escaped), label ? "</th>" : "</td>");
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
