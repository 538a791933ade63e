#include "experiments/results/table.h"

#include <array>
#include <utility>

namespace normlab {
namespace {

constexpr std::array kFormats{std::pair{"text", TableFormat::text}, std::pair{"markdown", TableFormat::markdown},
                              std::pair{"csv", TableFormat::csv},   std::pair{"latex", TableFormat::latex},
                              std::pair{"json", TableFormat::json}, std::pair{"html", TableFormat::html}};

}  // namespace

std::optional<TableFormat> table_format(std::string_view name) {
  for (const auto& [word, format] : kFormats)
    if (name == word) return format;
  return std::nullopt;
}

std::string render_table(const TableModel& model, TableFormat format, std::size_t width) {
  switch (format) {
    case TableFormat::markdown:
      return render_table_markdown(model);
    case TableFormat::csv:
      return render_table_csv(model);
    case TableFormat::latex:
      return render_table_latex(model);
    case TableFormat::json:
      return render_table_json(model);
    case TableFormat::html:
      return render_table_html(model);
    case TableFormat::text:
      break;
  }
  return render_table_text(model, width);
}

}  // namespace normlab
