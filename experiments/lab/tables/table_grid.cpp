#include "experiments/lab/tables/table_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/table_filter.h"

namespace normlab {
namespace {

TableCell words(std::string text) { return {std::move(text), "", "", std::nullopt, std::nullopt}; }

TableCell label_cell(const std::string& text) { return {text, "", "", parse_number(text), std::nullopt}; }

/// Text for a line without a number: the state of its seeds.
std::string state_words(const TableLine& line) { return line.notes.empty() ? "" : line.notes.front(); }

std::string marks(const TableLine& line) { return std::string(line.differs ? "*" : "") + (line.partial ? "†" : ""); }

TableCell mean_cell(const TableLine& line) {
  return {line.mean.text, line.half_width.text, "(" + line.count + ")", line.mean.value, line.half_width.value};
}

TableCell best_cell(const BestRate& best) {
  if (best.rate.empty()) return words("");
  return {best.mean.text, best.half_width.text, fmt::format("({}) at {}", best.count, best.rate), best.mean.value,
          best.half_width.value};
}

TableCell match_cell(const TableLine& line) {
  const BaselineMatch& match = line.match;
  if (match.pairs == 0) return words("");
  if (match.reached == match.pairs)
    return {match.mean.text, match.half_width.text, fmt::format("({})", match.pairs), match.mean.value,
            match.half_width.value};
  return words(match.reached == 0 ? fmt::format("never ({})", match.pairs)
                                  : fmt::format("never in {}/{}", match.pairs - match.reached, match.pairs));
}

TableCell equivalence_cell(const TableLine& line) {
  if (!line.equivalent) return words("");
  return {*line.equivalent ? "yes" : "not shown", "", "", line.equivalent_p.value, std::nullopt};
}

TableCell bootstrap_cell(const TableLine& line) {
  if (line.bootstrap_half_width.text.empty()) return words("");
  return {"", line.bootstrap_half_width.text, "", line.bootstrap_half_width.value, line.bootstrap_half_width.value};
}

void keep_differing_axes(TableModel& model, const std::vector<std::string>& axes) {
  std::vector<std::size_t> kept;
  for (std::size_t a = 0; a < axes.size(); ++a)
    if (std::any_of(model.lines.begin(), model.lines.end(),
                    [&](const TableLine& line) { return line.axes[a] != model.lines.front().axes[a]; }))
      kept.push_back(a);
  for (const std::size_t a : kept) model.axes.push_back(axes[a]);
  for (TableLine& line : model.lines) {
    std::vector<std::string> values;
    for (const std::size_t a : kept) values.push_back(std::move(line.axes[a]));
    line.axes = std::move(values);
  }
}

void lay_out_lines(TableModel& model) {
  std::vector<std::function<TableCell(const TableLine&)>> cells;
  const auto add = [&](TableColumn column, std::function<TableCell(const TableLine&)> cell) {
    model.columns.push_back(std::move(column));
    cells.push_back(std::move(cell));
  };
  const auto any = [&](auto&& test) { return std::any_of(model.lines.begin(), model.lines.end(), test); };
  for (std::size_t a = 0; a < model.axes.size(); ++a)
    add({model.axes[a], axis_name(model.axes, a), ColumnKind::label},
        [a](const TableLine& line) { return label_cell(line.axes[a]); });
  if (model.axes.empty())
    add({"row", "row", ColumnKind::label}, [](const TableLine& line) { return label_cell(line.label); });
  if (!model.best_heading.empty())
    add({"best", model.best_heading, ColumnKind::number}, [](const TableLine& line) { return best_cell(line.best); });
  add({"mean", model.metric_heading(), ColumnKind::number}, mean_cell);
  if (any([](const TableLine& line) { return line.baseline || line.gain.value; }))
    add({"gain", "gain", ColumnKind::number}, gain_cell);
  if (!model.match_heading.empty()) add({"match", model.match_heading, ColumnKind::number}, match_cell);
  if (any([](const TableLine& line) { return line.equivalent.has_value(); }))
    add({"equivalent", "equivalent", ColumnKind::words}, equivalence_cell);
  if (any([](const TableLine& line) { return line.bootstrap_half_width.value.has_value(); }))
    add({"bootstrap", "new images too", ColumnKind::number}, bootstrap_cell);
  if (any([](const TableLine& line) { return !line.notes.empty(); }))
    add({"notes", "notes", ColumnKind::words}, [](const TableLine& line) { return words(joined(line.notes, ", ")); });
  for (std::size_t i = 0; i < model.lines.size(); ++i) {
    TableGridRow& row = model.grid.emplace_back(TableGridRow{{}, {i}, model.lines[i].is_baseline});
    for (const auto& cell : cells) row.cells.push_back(cell(model.lines[i]));
  }
}

/// Indices in model.axes of the axes named by --rows or --cols, without those that have the same value in all lines.
std::vector<std::size_t> chosen_axes(const TableModel& model, const std::vector<std::string>& all,
                                     const std::vector<std::string>& names, const char* option) {
  const FieldNames known = table_fields(all);
  std::vector<std::size_t> chosen;
  for (const std::string& name : names) {
    const auto axis = known.find_axis(name);
    if (!axis) throw InputError(concat(option, ": ", unknown_word("axis", name, {all.begin(), all.end()})));
    const auto place = std::find(model.axes.begin(), model.axes.end(), all[*axis]);
    if (place != model.axes.end()) chosen.push_back(std::size_t(place - model.axes.begin()));
  }
  return chosen;
}

TableCell pivot_cell(const TableLine& line, TableCellContent content) {
  if (line.mean.text.empty()) return words(state_words(line));
  if (content == TableCellContent::gain) return gain_cell(line);
  TableCell cell = mean_cell(line);
  if (const std::string mark = marks(line); !mark.empty() && line.external.empty()) cell.tail += " " + mark;
  return cell;
}

void lay_out_pivot(TableModel& model, const std::vector<std::string>& all, const TableOptions& options) {
  std::vector<std::size_t> down = chosen_axes(model, all, options.rows, "--rows");
  std::vector<std::size_t> across = chosen_axes(model, all, options.cols, "--cols");
  for (std::size_t a = 0; a < model.axes.size(); ++a) {
    const bool is_down = std::find(down.begin(), down.end(), a) != down.end();
    const bool is_across = std::find(across.begin(), across.end(), a) != across.end();
    if (is_down && is_across) throw InputError(concat("--rows, --cols: ", model.axes[a], " cannot be both"));
    if (!is_down && !is_across) (options.cols.empty() ? across : down).push_back(a);
  }
  const auto values_of = [](const TableLine& line, const std::vector<std::size_t>& axes) {
    std::vector<std::string> values;
    for (const std::size_t a : axes) values.push_back(line.axes[a]);
    return values;
  };
  for (const std::size_t a : down)
    model.columns.push_back({model.axes[a], axis_name(model.axes, a), ColumnKind::label});
  if (down.empty()) model.columns.push_back({"row", "row", ColumnKind::label});
  const std::size_t labels = model.columns.size();

  std::map<std::vector<std::string>, std::size_t> columns;
  for (const TableLine& line : model.lines) {
    const auto values = values_of(line, across);
    if (!columns.try_emplace(values, columns.size()).second) continue;
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < across.size(); ++i) parts.push_back(axis_name(model.axes, across[i]) + "=" + values[i]);
    model.columns.push_back({fmt::format("col:{}", columns.size()),
                             parts.empty() ? model.metric_heading() : joined(parts, ", "), ColumnKind::number});
  }
  std::map<std::vector<std::string>, std::vector<std::size_t>> rows;  // several if combinations repeat
  for (std::size_t i = 0; i < model.lines.size(); ++i) {
    const TableLine& line = model.lines[i];
    const auto values = values_of(line, down);
    const std::size_t column = labels + columns.at(values_of(line, across));
    auto& places = rows[values];
    const auto free_place = std::find_if(places.begin(), places.end(),
                                         [&](std::size_t p) { return model.grid[p].cells[column].text().empty(); });
    std::size_t place = free_place == places.end() ? model.grid.size() : *free_place;
    if (free_place == places.end()) {
      places.push_back(place);
      TableGridRow row;
      for (const std::string& value : values) row.cells.push_back(label_cell(value));
      if (down.empty()) row.cells.push_back(label_cell(model.name));
      row.cells.resize(model.columns.size());
      row.is_baseline = true;
      model.grid.push_back(std::move(row));
    }
    TableGridRow& row = model.grid[place];
    row.cells[column] = pivot_cell(line, options.cells);
    row.lines.push_back(i);
    row.is_baseline = row.is_baseline && line.is_baseline;
    if (!line.notes.empty())
      model.footer.push_back({"note", fmt::format("{}: {}.", line.label, joined(line.notes, ", "))});
  }
  model.footer.insert(model.footer.begin(),
                      {"cells", options.cells == TableCellContent::gain
                                    ? fmt::format("Cells are gains in {} over the baseline.", model.metric_heading())
                                    : fmt::format("Cells are {}.", model.metric_heading())});
}

}  // namespace

TableCell gain_cell(const TableLine& line) {
  if (line.is_baseline) return words("baseline");
  if (line.gain.text.empty()) return words("");
  if (!line.external.empty())
    return {line.gain.text, line.gain_half_width.text, line.differs ? "* over ours" : "over ours", line.gain.value,
            line.gain_half_width.value};
  if (!line.cut)
    return {line.gain.text, line.gain_half_width.text, marks(line), line.gain.value, line.gain_half_width.value};
  return {line.gain.text, "", fmt::format("[{}, {}] {}", line.gain_low.text, line.gain_high.text, marks(line)),
          line.gain.value, std::nullopt};
}

std::string TableCell::text() const {
  std::string all = value;
  if (!half_width.empty()) all += (all.empty() ? "±" : " ±") + half_width;
  if (!tail.empty()) all += (all.empty() ? "" : " ") + tail;
  return all;
}

void lay_out_table(TableModel& model, const std::vector<std::string>& axes, const TableOptions& options) {
  keep_differing_axes(model, axes);
  if (options.rows.empty() && options.cols.empty())
    lay_out_lines(model);
  else
    lay_out_pivot(model, axes, options);
}

}  // namespace normlab
