// A table model as text for a terminal, for a document, a page or another program.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/results/table_model.h"

namespace normlab {

enum class TableFormat : std::uint8_t { text, markdown, csv, latex, json, html };

/// What a plain terminal shows.
inline constexpr std::size_t kTableWidth = 80;

/// What the formats do not share.
struct TableLayout {
  std::size_t width = kTableWidth;  // text: columns
  std::string caption, label;       // latex: of the table around the tabular, which is there where one of them is
};

/// - text: at most `width` columns wide; long labels, headings and notes wrap, columns that do not fit beside each
/// other
///   go into blocks below each other. The other formats have any width.
/// - latex: a tabular in the style of the package booktabs, with the footer below.
/// - html: one <table> with <caption>, <tfoot>, scopes, data-sort (the full number) and data-rows (places in the plan).
/// - csv (RFC 4180): the rows alone, parts of a cell in columns of their own. json: everything, each seed included.
/// Both
///   have all digits of a number, and axes in json have their types.
std::string render_table(const TableModel& model, TableFormat format, const TableLayout& layout = {});

/// The parts behind render_table.
std::string render_table_text(const TableModel& model, std::size_t width);
std::string render_table_markdown(const TableModel& model);
std::string render_table_latex(const TableModel& model, const std::string& caption, const std::string& label);
std::string render_table_html(const TableModel& model);
std::string render_table_csv(const TableModel& model);
std::string render_table_json(const TableModel& model);

}  // namespace normlab
