// From the grids of a descriptor to its rows.
#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/design.h"
#include "experiments/lab/descriptor/row_label.h"

namespace normlab {
namespace {

const std::string* find_value(const AxisValues& values, const std::string& path) {
  for (const auto& [axis, text] : values)
    if (axis == path) return &text;
  return nullptr;
}

bool matches(const AxisValues& values, const AxisChoice& choice) {
  return std::all_of(choice.values.begin(), choice.values.end(), [&](const auto& wanted) {
    const std::string* text = find_value(values, wanted.first);
    return text != nullptr && *text == wanted.second;
  });
}

/// Finds the files and the trials that rows start from.
class Starts {
 public:
  Starts(Design& design, StartSources& sources, Problems& problems)
      : design_(design), sources_(sources), problems_(problems) {}

  void resolve(GridRow& row) {
    StartConfig& start = row.config.start;
    if (start.at.source == nullptr) return;  // there is no "start"
    if (start.file.empty() && !start.from)
      return problems_.add(start.at, "expected \"file\" or \"from\", which say where the weights are");
    if (start.from) {
      row.cell.start = start.from->descriptor.empty() ? row_of_this(row, start)
                                                      : sources_.row_of(start, row.cell.axes, design_.placements,
                                                                        design_.max_trials, design_.classes, problems_);
      if (row.cell.start) check_start(row.config, row.cell.start->config, problems_);
      start.from.reset();
    } else {
      sources_.take_file_hash(start, problems_);
    }
    start.at = {};  // the descriptor's text does not outlive its reading
  }

 private:
  /// The row of this descriptor with the axis values of "from", and otherwise those of `row`.
  std::shared_ptr<StartRow> row_of_this(const GridRow& row, const StartConfig& start) {
    const auto fail = [&](const std::string& what) { return problems_.add(start.at, what), nullptr; };
    if (design_.tuned) return fail("a row of a descriptor with \"tune\" cannot be started from");
    if (++depth_ > kMostStarts) return fail("starts from itself");
    GridRow other;
    AxisValues values = row.values.front();
    if (!start.from->row.members.empty())
      for (const auto& [path, text] : read_choice(start.from->row, design_.grids, problems_).values) {
        const auto own = std::find_if(values.begin(), values.end(),
                                      [&, path = path](const auto& value) { return value.first == path; });
        if (own == values.end())
          values.emplace_back(path, text);
        else
          own->second = text;
      }
    if (!problems_.empty()) return nullptr;
    JsonNode tree = design_.base;
    for (const auto& [path, text] : values) {
      const auto [axis, value] = find_axis_value(design_.grids, path, text);
      lay(tree, *axis, value, problems_);
      other.cell.axes.emplace_back(path, axis->values[value].label);
    }
    other.config = read_trial(tree, design_.placements, ReadMode::descriptor, problems_, design_.classes);
    if (!problems_.empty()) return nullptr;
    other.cell.label = row_label(other.cell.axes, design_.paths, design_.stem);
    other.values.push_back(std::move(values));
    resolve(other);
    --depth_;
    return std::make_shared<StartRow>(StartRow{other.config, other.cell.label, start.from->seed, other.cell.start});
  }

  Design& design_;
  StartSources& sources_;
  Problems& problems_;
  int depth_ = 0;
};

std::size_t count_trials(const Design& design) {
  std::size_t sum = 0;
  for (const Grid& grid : design.grids) {
    const std::size_t rows = grid.size(design.max_trials), seeds = design.seeds_of(grid).size();
    std::size_t each = design.two_stage ? design.two_stage->max : seeds;
    if (design.tuned)
      for (const TuneStage& stage : design.tuned->stages()) each += stage.candidates() * stage.seeds.size();
    if (rows > design.max_trials / each) return design.max_trials + 1;
    sum += rows * each;
  }
  return sum;
}

/// Reads a row up to its start. Returns a text that is equal for rows whose trials are all the same; none if the row is
/// excluded or wrong.
std::optional<std::string> read_row(Design& design, const Grid& grid, const std::vector<std::size_t>& index,
                                    Starts& starts, Problems& problems, GridRow& row) {
  JsonNode tree = design.base;
  AxisValues& values = row.values.emplace_back();
  bool complete = true;
  for (std::size_t g = 0; g < grid.groups.size(); ++g)
    for (const Axis& axis : grid.groups[g]) {
      const AxisValue& value = axis.values[index[g]];
      complete = lay(tree, axis, index[g], problems) && complete;
      values.emplace_back(axis.path, value.text);
      row.cell.axes.emplace_back(axis.path, value.label);
    }
  const auto picked = [&](Choice& choice) {
    const bool fits = matches(values, choice.axes);
    choice.found = choice.found || fits;
    return fits;
  };
  bool left_out = false;
  for (Choice& choice : design.exclude) left_out = picked(choice) || left_out;
  if (left_out) return std::nullopt;
  // Marks the baseline as found even if the trials have problems, to avoid a second message.
  if (design.baseline) picked(*design.baseline);
  if (!complete) return std::nullopt;
  if (design.tuned_for) picked(*design.tuned_for);
  std::string identity;
  if (design.tuned)
    std::tie(row.config, identity) = design.tuned->check_row(tree, design.placements, problems);
  else
    row.config = read_trial(tree, design.placements, ReadMode::descriptor, problems, design.classes);
  if (!problems.empty()) return std::nullopt;
  row.cell.label = row_label(row.cell.axes, design.paths, design.stem);
  starts.resolve(row);
  if (!problems.empty()) return std::nullopt;
  identity += canonical_json(with_seed(row.config, row.cell.start, 0));
  // Tells whether the trial to start from has a seed of its own.
  if (row.cell.start) identity += canonical_json(with_seed(row.config, row.cell.start, 1));
  row.seeds = design.seeds_of(grid);
  row.grid = &grid;
  if (design.tuned) row.tree = std::move(tree);
  return identity;
}

/// Adds a row with the settings of `first` to it.
void add_repeated(GridRow row, GridRow& first, GridRows& out) {
  const bool same_name = row.cell.label == first.cell.label;
  if (!same_name || row.grid == first.grid)  // not if another grid has the same axis values, to add seeds to them
    out.repeated.push_back(same_name ? concat("row ", in_quotes(row.cell.label), " is given twice; it is trained once")
                                     : concat("row ", in_quotes(row.cell.label), " has the same settings as ",
                                              in_quotes(first.cell.label), "; they are one row, trained once"));
  for (const std::uint64_t seed : row.seeds) {
    if (std::find(first.seeds.begin(), first.seeds.end(), seed) == first.seeds.end())
      first.seeds.push_back(seed);
    else
      ++out.duplicates;
  }
  first.values.push_back(std::move(row.values.front()));
}

void match_baselines(const Design& design, std::vector<GridRow>& rows) {
  if (!design.baseline) return;
  const AxisChoice& baseline = design.baseline->axes;
  // The values at the axes that the baseline does not fix.
  const auto strip_of = [&](const AxisValues& values) {
    std::string strip;
    for (const std::string& path : design.paths) {
      const std::string* text = find_value(values, path);
      if (text != nullptr && find_value(baseline.values, path) == nullptr) strip += concat(path, "=", *text, "\n");
    }
    return strip;
  };
  std::unordered_map<std::string, std::size_t> row_of_strip;
  for (const bool own : {true, false})
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::size_t v = own ? 0 : 1; v < (own ? 1 : rows[r].values.size()); ++v)
        if (matches(rows[r].values[v], baseline)) row_of_strip.try_emplace(strip_of(rows[r].values[v]), r);
  for (GridRow& row : rows)
    for (const AxisValues& values : row.values)
      if (const auto found = row_of_strip.find(strip_of(values)); found != row_of_strip.end() && !row.cell.baseline)
        row.cell.baseline = found->second;
}

void mark_apart(const Design& design, std::vector<GridRow>& rows, Problems& problems) {
  std::vector<std::string_view> labels;
  for (const GridRow& row : rows) labels.push_back(row.cell.label);
  for (const auto& [given, axes] : design.apart) {
    bool found = false;
    const auto fits = [&, &axes = axes](const AxisValues& values) { return matches(values, axes); };
    for (GridRow& row : rows)
      if (given.is_string() ? row.cell.label == given.text : std::any_of(row.values.begin(), row.values.end(), fits))
        row.cell.apart = found = true;
    if (!found)
      problems.add(given.at,
                   given.is_string() ? unknown_word("row", given.text, labels) : "matches no combination of the sweep");
  }
  problems.throw_if_any_or_unused();
}

}  // namespace

GridRows read_rows(Design& design, StartSources& sources, Problems& problems) {
  GridRows out;
  Starts starts(design, sources, problems);
  std::unordered_map<std::string, std::size_t> row_of_identity;
  const auto add = [&](const Grid& grid, const std::vector<std::size_t>& index) {
    GridRow row;
    std::optional<std::string> identity = read_row(design, grid, index, starts, problems, row);
    if (!identity) return;
    const auto [known, added] = row_of_identity.try_emplace(*std::move(identity), out.rows.size());
    if (added)
      out.rows.push_back(std::move(row));
    else
      add_repeated(std::move(row), out.rows[known->second], out);
  };
  if (count_trials(design) > design.max_trials)
    problems.add(design.position_of("sweep"), "/sweep",
                 concat("more than ", design.max_trials, " trials; split the descriptor"));
  else
    for (const Grid& grid : design.grids) for_each_combination(grid, [&](const auto& index) { add(grid, index); });
  const auto check = [&](const Choice& choice) {
    if (problems.empty() && !choice.found) problems.add(choice.axes.at, "matches no combination of the sweep");
  };
  for (const Choice& choice : design.exclude) check(choice);
  if (design.baseline) check(*design.baseline);
  if (design.tuned_for) check(*design.tuned_for);
  if (problems.empty() && out.rows.empty())
    problems.add(design.position_of("exclude"), "/exclude", "excludes every combination; leave at least one");
  problems.throw_if_any_or_unused();
  match_baselines(design, out.rows);
  mark_apart(design, out.rows, problems);
  return out;
}

}  // namespace normlab
