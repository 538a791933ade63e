#include "experiments/lab/tables/table_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>

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

TableCell mean_cell(const TableLine& line, const TableOptions& options) {
  const Figure& spread = options.sd == TableSd::instead ? line.sd : line.half_width;
  TableCell cell{line.mean.text, spread.text, "(" + line.count + ")", line.mean.value, spread.value};
  cell.bold = line.is_best;
  cell.note = joined(line.notes, ", ");
  const auto is = [](SeedState state) { return [state](const TableSeed& seed) { return seed.state == state; }; };
  cell.absent = line.mean.text.empty();
  cell.diverged = cell.absent && std::any_of(line.seeds.begin(), line.seeds.end(), is(SeedState::diverged)) &&
                  std::none_of(line.seeds.begin(), line.seeds.end(), is(SeedState::done));
  return cell;
}

TableCell figure_cell(const Figure& figure) { return {figure.text, "", "", figure.value, std::nullopt}; }

/// The best mean of each group of shown rows, and those that print alike. Rows with diverged or missing runs do not
/// compete, nor do external rows or a row alone. `group_of`: of each line.
void mark_best(TableModel& model, const std::vector<std::size_t>& group_of, const char* where) {
  std::map<std::size_t, std::vector<TableLine*>> groups;
  bool incomplete = false, external = false;
  for (std::size_t i = 0; i < model.lines.size(); ++i) {
    TableLine& line = model.lines[i];
    if (!line.external.empty())
      external = true;
    else if (line.n > 0 && line.n == line.seeds.size())
      groups[group_of[i]].push_back(&line);
    else
      incomplete = true;
  }
  const bool lower = lower_is_better(model.metric);
  for (auto& [group, rows] : groups) {
    const auto best = std::max_element(rows.begin(), rows.end(), [&](const TableLine* a, const TableLine* b) {
      return lower ? *a->mean.value > *b->mean.value : *a->mean.value < *b->mean.value;
    });
    for (TableLine* line : rows) line->is_best = rows.size() > 1 && line->mean.text == (*best)->mean.text;
  }
  model.footer.push_back(
      {"bold",
       fmt::format("Bold: the {} mean {}, and those that print alike. It may lead by chance.{}",
                   lower ? "lowest" : "highest", where,
                   incomplete && external ? " Rows with diverged or missing runs and external rows do not compete."
                   : incomplete           ? " Rows with diverged or missing runs do not compete."
                   : external             ? " External rows do not compete."
                                          : "")});
}

/// Rows with one baseline, and those without any.
std::vector<std::size_t> strips_of(const TableModel& model) {
  std::vector<std::size_t> groups;
  for (const TableLine& line : model.lines) groups.push_back(line.baseline ? line.strip : model.strips.size());
  return groups;
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

std::vector<std::size_t> every_axis(const TableModel& model) {
  std::vector<std::size_t> all(model.axes.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

/// Where rows have experiment and name: without the axis that repeats the name, and those that have one value in each
/// experiment, which the footer says.
std::vector<std::size_t> axes_beside_names(TableModel& model) {
  std::vector<std::size_t> shown;
  std::map<std::string, std::vector<std::string>> settings;  // by experiment
  for (const std::size_t a : every_axis(model)) {
    std::map<std::string, std::string> values;
    bool constant = true, repeats = true;
    for (const TableLine& line : model.lines) {
      constant = constant && !line.name.empty() &&
                 values.try_emplace(line.experiment, line.axes[a]).first->second == line.axes[a];
      repeats = repeats && line.axes[a] == line.name;
    }
    if (!constant && !repeats) shown.push_back(a);
    if (!constant) continue;
    for (const auto& [experiment, value] : values)
      if (!value.empty()) settings[experiment].push_back(model.axes[a] + " " + value);
  }
  for (const auto& [experiment, list] : settings)
    model.footer.push_back({"settings", fmt::format("Rows of {}: {}.", experiment, joined(list, ", "))});
  return shown;
}

void lay_out_lines(TableModel& model, const TableOptions& options) {
  if (options.bold == TableBold::best)
    mark_best(model, strips_of(model), model.strips.size() > 1 ? "of the rows with one baseline" : "of the rows");
  std::vector<std::function<TableCell(const TableLine&)>> cells;
  const auto add = [&](TableColumn column, std::function<TableCell(const TableLine&)> cell) {
    model.columns.push_back(std::move(column));
    cells.push_back(std::move(cell));
  };
  const auto any = [&](auto&& test) { return std::any_of(model.lines.begin(), model.lines.end(), test); };
  const bool named = any([](const TableLine& line) { return !line.name.empty(); });
  if (named && any([&](const TableLine& line) { return line.experiment != model.lines.front().experiment; }))
    add({"experiment", "experiment", ColumnKind::label},
        [](const TableLine& line) { return label_cell(line.experiment); });
  if (named) add({"name", "row", ColumnKind::label}, [](const TableLine& line) { return label_cell(line.name); });
  for (const std::size_t a : named ? axes_beside_names(model) : every_axis(model))
    add({model.axes[a], axis_name(model.axes, a), ColumnKind::label},
        [a](const TableLine& line) { return label_cell(line.axes[a]); });
  if (model.axes.empty() && !named)
    add({"row", "row", ColumnKind::label}, [](const TableLine& line) { return label_cell(line.label); });
  if (!model.best_heading.empty())
    add({"best", model.best_heading, ColumnKind::number}, [](const TableLine& line) { return best_cell(line.best); });
  const bool sd = options.sd == TableSd::instead;
  add({"mean", model.metric_heading(), ColumnKind::number, sd ? "sd" : "half_width"},
      [&](const TableLine& line) { return mean_cell(line, options); });
  if (options.sd == TableSd::beside)
    add({"sd", "sd", ColumnKind::number}, [](const TableLine& line) { return figure_cell(line.sd); });
  if (options.letters)
    add({"letters", "letters", ColumnKind::words}, [](const TableLine& line) { return words(line.letters); });
  if (any([](const TableLine& line) { return line.baseline || line.gain.value; }))
    add({"gain", "gain", ColumnKind::number}, gain_cell);
  if (!model.match_heading.empty()) add({"match", model.match_heading, ColumnKind::number}, match_cell);
  if (options.effect_size)
    add({"effect_size", "effect size", ColumnKind::number},
        [](const TableLine& line) { return figure_cell(line.effect_size); });
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

void lay_out_pairs(TableModel& model) {
  model.columns = {{"row", "row", ColumnKind::label},
                   {"other", "minus", ColumnKind::label},
                   {"difference", "difference", ColumnKind::number},
                   {"p", "p", ColumnKind::number}};
  std::map<std::size_t, std::size_t> line_of;
  for (std::size_t i = 0; i < model.lines.size(); ++i) line_of[model.lines[i].plan_index] = i;
  for (const TablePair& pair : model.pairs) {
    const std::size_t row = line_of.at(pair.row), other = line_of.at(pair.other);
    model.grid.push_back(
        {{label_cell(model.lines[row].label), label_cell(model.lines[other].label),
          interval_cell(pair.difference, pair.half_width, pair.low, pair.high, pair.cut, pair.differs ? "*" : ""),
          figure_cell(pair.p)},
         {row, other},
         false});
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

TableCell pivot_cell(const TableLine& line, const TableOptions& options) {
  TableCell cell = mean_cell(line, options);
  if (line.mean.text.empty()) {
    cell.value = state_words(line);
    cell.half_width = cell.tail = "";
    return cell;
  }
  if (options.cells == TableCellContent::gain) {
    TableCell gain = gain_cell(line);
    gain.bold = cell.bold;
    gain.note = cell.note;
    return gain;
  }
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

  const auto has_place = [&](const TableLine& line) {
    return line.external.empty() || line.same_named || model.axes.size() < 2;
  };
  std::map<std::vector<std::string>, std::size_t> columns;
  for (const TableLine& line : model.lines) {
    if (!has_place(line)) continue;
    const auto values = values_of(line, across);
    if (!columns.try_emplace(values, columns.size()).second) continue;
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < across.size(); ++i) parts.push_back(axis_name(model.axes, across[i]) + "=" + values[i]);
    model.columns.push_back(
        {fmt::format("col:{}", columns.size()), parts.empty() ? model.metric_heading() : joined(parts, ", "),
         ColumnKind::number,
         options.sd == TableSd::instead && options.cells == TableCellContent::mean ? "sd" : "half_width"});
  }
  if (options.bold == TableBold::best) {
    std::vector<std::size_t> groups = strips_of(model);
    if (model.strips.empty())
      for (std::size_t i = 0; i < groups.size(); ++i)
        if (has_place(model.lines[i])) groups[i] = columns.at(values_of(model.lines[i], across));
    mark_best(model, groups, model.strips.empty() ? "of each column" : "of the rows with one baseline");
  }
  std::map<std::vector<std::string>, std::vector<std::size_t>> rows;  // several if combinations repeat
  for (std::size_t i = 0; i < model.lines.size(); ++i) {
    const TableLine& line = model.lines[i];
    if (!has_place(line)) {
      model.footer.push_back({"external", fmt::format("{}, in no cell, as none has its settings: {}.", line.label,
                                                      mean_cell(line, options).text())});
      continue;
    }
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
    row.cells[column] = pivot_cell(line, options);
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
  const std::string mark =
      line.external.empty() ? marks(line) : std::string(line.differs ? "* over ours" : "over ours");
  return interval_cell(line.gain, line.gain_half_width, line.gain_low, line.gain_high, line.cut, mark);
}

TableCell interval_cell(const Figure& value, const Figure& half_width, const Figure& low, const Figure& high, bool cut,
                        const std::string& marks) {
  if (!cut) return {value.text, half_width.text, marks, value.value, half_width.value};
  return {value.text, "", fmt::format("[{}, {}] {}", low.text, high.text, marks), value.value, std::nullopt};
}

std::string TableCell::text() const {
  std::string all = value;
  if (!half_width.empty()) all += (all.empty() ? "±" : " ±") + half_width;
  if (!tail.empty()) all += (all.empty() ? "" : " ") + tail;
  return all;
}

void lay_out_table(TableModel& model, const std::vector<std::string>& axes, const TableOptions& options) {
  keep_differing_axes(model, axes);
  if (options.pairs == TablePairs::all && !options.letters)
    lay_out_pairs(model);
  else if (options.rows.empty() && options.cols.empty())
    lay_out_lines(model, options);
  else
    lay_out_pivot(model, axes, options);
}

}  // namespace normlab
