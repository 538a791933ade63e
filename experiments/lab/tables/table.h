// Renders a table model for a terminal, a document, a web page or another program.
#pragma once

#include <cstdint>
#include <string>

#include "core/words.h"
#include "experiments/lab/tables/table_model.h"

namespace normlab {

enum class TableFormat : std::uint8_t { text, markdown, csv, latex, json, html };
constexpr auto stated_words(TableFormat) {
  return words<TableFormat>("text", "markdown", "csv", "latex", "json", "html");
}

/// Columns of a standard terminal.
inline constexpr std::size_t kTableWidth = 80;

/// Options of single formats.
struct TableLayout {
  std::size_t width = kTableWidth;  // text: number of columns
  std::string caption{}, label{};   // latex: for a table environment around the tabular, added if either is set
  bool wide = false;                // latex: that environment spans both columns of a page
};

/// - text: at most `width` columns wide. Long labels, headings and notes wrap; columns that do not fit side by side go
///   into blocks below each other. The other formats have any width.
/// - latex: a tabular in the style of the package booktabs, numbers in columns of siunitx, with the footer below; a
///   longtable beyond a page. A count of seeds that all cells share, and notes, are said below it only.
/// - html: one <table> with <caption>, <tfoot>, scopes, data-sort (the full number) and data-rows (indices in the
///   plan).
/// - csv (RFC 4180): only the rows, with each part of a cell in its own column.
/// - json: everything, including each seed; axes have their types.
///
/// csv and json give all digits of a number.
std::string render_table(const TableModel& model, TableFormat format, const TableLayout& layout = {});

std::string render_table_text(const TableModel& model, std::size_t width);
std::string render_table_markdown(const TableModel& model);
std::string render_table_latex(const TableModel& model, const TableLayout& layout);
std::string render_table_html(const TableModel& model);
std::string render_table_csv(const TableModel& model);
std::string render_table_json(const TableModel& model);

}  // namespace normlab
