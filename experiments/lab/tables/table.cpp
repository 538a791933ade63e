#include "experiments/lab/tables/table.h"

namespace normlab {

std::string render_table(const TableModel& model, TableFormat format, const TableLayout& layout) {
  switch (format) {
    case TableFormat::markdown:
      return render_table_markdown(model);
    case TableFormat::csv:
      return render_table_csv(model);
    case TableFormat::latex:
      return render_table_latex(model, layout.caption, layout.label);
    case TableFormat::json:
      return render_table_json(model);
    case TableFormat::html:
      return render_table_html(model);
    case TableFormat::text:
      break;
  }
  return render_table_text(model, layout.width);
}

}  // namespace normlab
