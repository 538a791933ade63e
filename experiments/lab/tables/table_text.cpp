#include <algorithm>

#include "core/visible_text.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/labels.h"
#include "experiments/lab/tables/table.h"

namespace normlab {
namespace {

constexpr std::size_t kGap = 2;             // spaces between columns
constexpr std::size_t kNarrowestLabel = 8;  // a label column shrinks at most to this, or to its longest word
constexpr std::size_t kEasyNotes = 36;      // notes shrink to this before anything else does
constexpr std::size_t kNarrowestNotes = 20;

std::string spaces(std::size_t count) { return std::string(count, ' '); }

std::string padded(const std::string& text, std::size_t columns) {
  return text + spaces(columns - std::min(columns, display_width(text)));
}

/// Aligns the cells of a column, with values on the right, and intervals and tails on the left: "76.1 ±0.4 (5)" over
/// " 9.3       (1)".
std::vector<std::string> aligned(const TableModel& model, std::size_t column) {
  std::size_t value = 0, half_width = 0;
  const auto is_number = [](const TableCell& cell) { return cell.sort.has_value(); };
  for (const TableGridRow& row : model.grid) {
    const TableCell& cell = row.cells[column];
    if (is_number(cell)) value = std::max(value, display_width(cell.value));
    if (!cell.half_width.empty()) half_width = std::max(half_width, display_width(cell.half_width) + 2);
  }
  std::vector<std::string> texts;
  for (const TableGridRow& row : model.grid) {
    const TableCell& cell = row.cells[column];
    if (!is_number(cell) && !cell.value.empty()) {
      texts.push_back(visible_line(cell.text()));
      continue;
    }
    std::string text = spaces(value - display_width(cell.value)) + cell.value;
    text += padded(cell.half_width.empty() ? "" : " ±" + cell.half_width, half_width);
    if (!cell.tail.empty()) text += (text.empty() ? "" : " ") + cell.tail;
    while (!text.empty() && text.back() == ' ') text.pop_back();
    texts.push_back(text);
  }
  return texts;
}

struct TextColumn {
  std::string heading;
  ColumnKind kind = ColumnKind::number;
  std::vector<std::string> cells;
  std::size_t width = 0;
  std::size_t natural = 0;  // width of the longest cell
  std::size_t narrowest = 0;
};

std::size_t widest(const std::vector<std::string>& cells) {
  std::size_t width = 0;
  for (const std::string& cell : cells) width = std::max(width, display_width(cell));
  return width;
}

std::size_t longest_word(const std::string& text) {
  std::size_t longest = 0, begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    longest = std::max(longest, display_width(std::string_view(text).substr(begin, end - begin)));
    begin = end + 1;
  }
  return longest;
}

/// Allows a label to break after the commas between settings.
std::string breakable(const std::string& label) {
  std::string text;
  for (std::size_t i = 0; i < label.size(); ++i) {
    text += label[i];
    if (label[i] == ',' && i + 1 < label.size() && label[i + 1] == '"') text += ' ';
  }
  return text;
}

std::size_t total(const std::vector<const TextColumn*>& columns) {
  std::size_t width = 0;
  for (const TextColumn* column : columns) width += column->width + (width == 0 ? 0 : kGap);
  return width;
}

/// Takes `excess` characters from the label columns, always from the widest; returns the rest.
std::size_t narrow_labels(std::vector<TextColumn>& columns, std::size_t excess) {
  while (excess > 0) {
    TextColumn* widest_label = nullptr;
    for (TextColumn& column : columns)
      if (column.kind == ColumnKind::label && column.width > column.narrowest &&
          (widest_label == nullptr || column.width > widest_label->width))
        widest_label = &column;
    if (widest_label == nullptr) break;
    --widest_label->width;
    --excess;
  }
  return excess;
}

void put_line(std::string& text, std::string line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  text += line + "\n";
}

/// Prints one table line; cells that are too long continue below.
void put_cells(std::string& text, const std::vector<const TextColumn*>& columns, const std::vector<std::string>& cells,
               bool at_the_bottom) {
  std::vector<std::vector<std::string>> lines;
  std::size_t height = 1;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const bool fits = display_width(cells[c]) <= columns[c]->width;  // keeps the alignment of numbers
    lines.push_back(fits ? std::vector<std::string>{cells[c]} : wrapped(cells[c], columns[c]->width));
    height = std::max(height, lines.back().size());
  }
  for (std::size_t k = 0; k < height; ++k) {
    std::string line;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::size_t above = at_the_bottom ? height - lines[c].size() : 0;
      const std::string part = k >= above && k - above < lines[c].size() ? lines[c][k - above] : "";
      line += padded(part, columns[c]->width + kGap);
    }
    put_line(text, line);
  }
}

void put_block(std::string& text, const std::vector<const TextColumn*>& columns, std::size_t rows) {
  std::vector<std::string> cells;
  for (const TextColumn* column : columns) cells.push_back(column->heading);
  put_cells(text, columns, cells, true);
  for (std::size_t r = 0; r < rows; ++r) {
    cells.clear();
    for (const TextColumn* column : columns) cells.push_back(column->cells[r]);
    put_cells(text, columns, cells, false);
  }
}

/// Groups columns into blocks of the labels and as many others as fit.
std::vector<std::vector<const TextColumn*>> blocks_of(std::vector<TextColumn>& columns, std::size_t width) {
  std::vector<const TextColumn*> labels, others;
  for (const TextColumn& column : columns) (column.kind == ColumnKind::label ? labels : others).push_back(&column);
  std::size_t widest_other = 0;
  for (const TextColumn* column : others) widest_other = std::max(widest_other, column->width);
  const std::size_t label_width = total(labels), wanted = label_width + kGap + widest_other;
  if (wanted > width) narrow_labels(columns, wanted - width);
  std::vector<std::vector<const TextColumn*>> blocks;
  for (const TextColumn* column : others) {
    const bool begins = blocks.empty() || total(blocks.back()) + kGap + column->width > width;
    if (begins) blocks.push_back(labels);
    blocks.back().push_back(column);
  }
  return blocks;
}

/// If the settings do not fit side by side, joins them in one column: "embed_dim=64, depth=4".
void join_labels(std::vector<TextColumn>& columns, std::size_t width) {
  TextColumn all{"row", ColumnKind::label, {}, 0, 0, kNarrowestLabel};
  for (const TextColumn& column : columns) {
    if (column.kind != ColumnKind::label) continue;
    all.cells.resize(column.cells.size());
    for (std::size_t r = 0; r < column.cells.size(); ++r)
      if (!column.cells[r].empty())
        all.cells[r] += (all.cells[r].empty() ? "" : ", ") + column.heading + "=" + column.cells[r];
  }
  std::erase_if(columns, [](const TextColumn& column) { return column.kind == ColumnKind::label; });
  std::size_t others = 0;
  for (const TextColumn& column : columns) others += kGap + column.width;
  all.width = std::max(width - std::min(width, others), width / 2);
  columns.insert(columns.begin(), std::move(all));
}

}  // namespace

std::string render_table_text(const TableModel& model, std::size_t width) {
  std::vector<TextColumn> columns;
  for (std::size_t c = 0; c < model.columns.size(); ++c) {
    TextColumn column{visible_line(model.columns[c].heading), model.columns[c].kind, {}, 0, 0, kNarrowestLabel};
    if (column.kind == ColumnKind::number)
      column.cells = aligned(model, c);
    else
      for (const TableGridRow& row : model.grid) column.cells.push_back(breakable(visible_line(row.cells[c].text())));
    if (column.kind == ColumnKind::label) column.narrowest = std::max(column.narrowest, longest_word(column.heading));
    for (const std::string& cell : column.cells)
      column.narrowest = std::max(column.narrowest, std::min(longest_word(cell), width / 2));
    column.natural = column.width = std::max(widest(column.cells), display_width(column.heading));
    columns.push_back(std::move(column));
  }
  const auto natural = [&] {
    std::vector<const TextColumn*> all;
    for (const TextColumn& column : columns) all.push_back(&column);
    return all;
  };
  const auto excess = [&] {
    const std::size_t all = total(natural());
    return all > width ? all - width : 0;
  };
  // Reduces what costs least first: long notes, headings of numbers, labels. Then columns are split into blocks.
  const auto narrow_notes = [&](std::size_t narrowest) {
    for (TextColumn& column : columns)
      if (column.kind == ColumnKind::words)
        column.width -= std::min(excess(), column.width - std::min(column.width, narrowest));
  };
  narrow_notes(kEasyNotes);
  if (excess() > 0)
    for (TextColumn& column : columns)
      if (column.kind == ColumnKind::number)
        column.width = std::max(widest(column.cells),
                                std::min(column.width, std::max<std::size_t>(longest_word(column.heading), 8)));
  narrow_notes(kNarrowestNotes);
  narrow_labels(columns, excess());
  std::size_t labels = 0, widest_other = 0;
  for (const TextColumn& column : columns)
    if (column.kind == ColumnKind::label)
      labels += column.width + kGap;
    else
      widest_other = std::max(widest_other, column.width);
  if (labels + widest_other > width) join_labels(columns, width);
  std::string text;
  if (!model.about.empty()) {
    for (const std::string& line : wrapped(visible(model.about), std::min(width, kWidestProse))) put_line(text, line);
    text += "\n";
  }
  if (excess() == 0) {
    put_block(text, natural(), model.grid.size());
    text += "\n";
  } else {
    for (TextColumn& column : columns) {
      if (column.kind == ColumnKind::label && column.natural > 0) column.width = column.natural;
      column.width = std::min(column.width, width - kGap - kNarrowestLabel);
    }
    for (const auto& block : blocks_of(columns, width)) {
      put_block(text, block, model.grid.size());
      text += "\n";
    }
  }
  for (const TableSentence& sentence : model.footer)
    for (const std::string& line : wrapped(visible(sentence.text), std::min(width, kWidestProse))) put_line(text, line);
  return text;
}

std::string render_table(const TableModel& model, TableFormat format, const TableLayout& layout) {
  switch (format) {
    case TableFormat::markdown:
      return render_table_markdown(with_labels(model));
    case TableFormat::csv:
      return render_table_csv(model);
    case TableFormat::latex:
      return render_table_latex(with_labels(model), layout);
    case TableFormat::json:
      return render_table_json(model);
    case TableFormat::html:
      return render_table_html(with_labels(model));
    case TableFormat::text:
      break;
  }
  return render_table_text(with_labels(model), layout.width);
}

}  // namespace normlab
