#include "experiments/lab/tables/row_columns.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/table_parts.h"

namespace normlab {
namespace {

using Lines = std::vector<const TableLine*>;

/// Counted from the network, or measured by the runs.
struct RowColumn {
  std::string_view key, heading;
  std::optional<std::int64_t> TableRow::*counted = nullptr;
  double TableSeed::*measured = nullptr;
};
constexpr RowColumn kRowColumns[] = {{"params", "params", &TableRow::params},
                                     {"macs", "macs", &TableRow::macs},
                                     {"seconds", "seconds", nullptr, &TableSeed::wall_seconds},
                                     {"images_per_second", "images/s", nullptr, &TableSeed::images_per_second},
                                     {"peak_mb", "peak MB", nullptr, &TableSeed::peak_mb}};

const RowColumn& row_column(const std::string& key) {
  return *std::find_if(std::begin(kRowColumns), std::end(kRowColumns),
                       [&](const RowColumn& c) { return c.key == key; });
}

std::optional<double> value_of(const RowColumn& column, const Lines& lines) {
  if (column.counted != nullptr) {
    const auto& first = lines.front()->*column.counted;
    const bool same =
        std::all_of(lines.begin(), lines.end(), [&](const TableLine* line) { return line->*column.counted == first; });
    return first && same ? std::optional(double(*first)) : std::nullopt;
  }
  double sum = 0;
  std::size_t runs = 0;
  for (const TableLine* line : lines)
    for (const TableSeed& seed : line->seeds)
      if (seed.*column.measured > 0) sum += seed.*column.measured, ++runs;
  return runs > 0 ? std::optional(sum / double(runs)) : std::nullopt;
}

/// What the numbers of a column are divided by, and how they are rounded.
struct Scale {
  double unit = 1;
  std::string_view word;  // "M"
  int decimals = 0;
};

/// The smallest number keeps four digits if it is counted, three if it is measured.
Scale scale_of(const std::vector<std::optional<double>>& values, bool counted) {
  double least = INFINITY;
  for (const std::optional<double>& value : values)
    if (value && *value > 0) least = std::min(least, *value);
  Scale scale;
  if (std::isinf(least)) return scale;
  if (counted && least < 1e4) return scale;
  for (const auto& [unit, word] : {std::pair{1e3, "k"}, {1e6, "M"}, {1e9, "G"}})
    if (counted && least >= unit) scale.unit = unit, scale.word = word;
  scale.decimals = std::clamp((counted ? 3 : 2) - int(std::floor(std::log10(least / scale.unit))), 0, 3);
  return scale;
}

/// "seconds, images/s": the headings of those that runs measure.
std::string measured_of(const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names)
    if (row_column(name).measured != nullptr) found.emplace_back(row_column(name).heading);
  return joined(found, ", ");
}

void add_sentences(TableModel& model, const std::vector<std::string>& names, const std::vector<std::string>& empty) {
  std::vector<std::string> recorded = names;
  std::erase_if(recorded, [&](const auto& name) { return std::find(empty.begin(), empty.end(), name) != empty.end(); });
  const auto add = [&](std::string text) { model.footer.push_back({"columns", std::move(text)}); };
  std::vector<std::string> meant;
  for (const auto& [name, what] : {std::pair{"params", "params: parameters of the network"},
                                   {"macs", "macs: multiply-adds of its matrix products for one image, forward"},
                                   {"peak_mb",
                                    "peak MB: the most memory that the training process held at once, with its data; "
                                    "on a GPU that of its tensors and buffers"}})
    if (std::find(recorded.begin(), recorded.end(), name) != recorded.end()) meant.push_back(what);
  if (!meant.empty()) add(joined(meant, "; ") + ".");
  std::set<std::string> machines;
  for (const TableLine& line : model.lines)
    for (const TableSeed& seed : line.seeds)
      if (!seed.machine.empty()) machines.insert(seed.machine);
  if (const std::string measured = measured_of(recorded); !measured.empty())
    add(fmt::format(
        "{}: means over the runs that did not diverge, with their evaluations, on {}{}.", measured,
        first_few(std::vector(machines.begin(), machines.end()), [](const std::string& machine) { return machine; }),
        machines.size() > 1 ? ", so rows may differ by their machines" : ""));
  const bool runs =
      std::any_of(model.lines.begin(), model.lines.end(), [](const TableLine& line) { return line.has_runs(); });
  if (!empty.empty() && !runs)
    add(fmt::format("Each row is of several runs, so these columns are empty: {}.", joined(empty, ", ")));
  else if (!empty.empty())
    add(fmt::format(
        "No result of these rows records {}.{}", joined(empty, ", "),
        std::find(empty.begin(), empty.end(), "peak_mb") != empty.end() ? " `normlab plan` estimates memory." : ""));
}

}  // namespace

void require_row_columns(const std::vector<std::string>& names) {
  std::vector<std::string_view> known;
  for (const RowColumn& column : kRowColumns) known.push_back(column.key);
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InputError("--columns: " + unknown_word("column", name, known));
    if (!seen.insert(name).second) throw InputError(concat("--columns: ", name, " is given twice"));
  }
}

void add_row_columns(TableModel& model, const std::vector<std::string>& names) {
  model.row_columns = names;
  const auto notes = std::find_if(model.columns.begin(), model.columns.end(),
                                  [](const TableColumn& column) { return column.key == "notes"; });
  auto place = notes - model.columns.begin();
  std::vector<std::string> empty;
  for (const std::string& name : names) {
    const RowColumn& column = row_column(name);
    std::vector<std::optional<double>> values;
    for (const TableGridRow& row : model.grid) {
      Lines lines;
      for (const std::size_t line : row.lines) lines.push_back(&model.lines[line]);
      values.push_back(value_of(column, lines));
    }
    const Scale scale = scale_of(values, column.counted != nullptr);
    model.columns.insert(
        model.columns.begin() + place,
        {name, scale.word.empty() ? std::string(column.heading) : fmt::format("{} [{}]", column.heading, scale.word)});
    for (std::size_t r = 0; r < values.size(); ++r) {
      TableCell cell{"", "", "", values[r], std::nullopt};
      if (values[r]) cell.value = fixed(*values[r] / scale.unit, scale.decimals);
      model.grid[r].cells.insert(model.grid[r].cells.begin() + place, std::move(cell));
    }
    for (TableLine& line : model.lines) line.measured.push_back({value_of(column, {&line}), ""});
    ++place;
    if (column.counted == nullptr &&
        std::none_of(values.begin(), values.end(), [](const auto& value) { return value.has_value(); }))
      empty.push_back(name);
  }
  if (!names.empty()) add_sentences(model, names, empty);
}

void take_common_cost(TableRow& row, const std::vector<TableRow>& rows, const std::vector<std::size_t>& of) {
  for (const auto count : {&TableRow::params, &TableRow::macs}) {
    row.*count = rows[of.front()].*count;
    for (const std::size_t r : of)
      if (rows[r].*count != row.*count) row.*count = std::nullopt;
  }
}

}  // namespace normlab
