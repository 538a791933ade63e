// From the grids of a descriptor to its rows.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/design.h"
#include "experiments/lab/descriptor/metric_names.h"
#include "experiments/lab/descriptor/sweep.h"

namespace normlab {
namespace {

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
                                    StartSources& starts, Problems& problems, GridRow& row) {
  JsonNode tree = design.base;
  AxisLabels& values = row.values.emplace_back();
  const bool complete = lay(tree, grid, index, problems);
  for (std::size_t g = 0; g < grid.groups.size(); ++g)
    for (const Axis& axis : grid.groups[g]) {
      const AxisValue& value = axis.values[index[g]];
      values.emplace_back(axis.path, value.text);
      row.cell.axes.emplace_back(axis.path, value.label);
    }
  const auto picked = [&](Choice& choice) {
    const bool fits = matches(values, choice.axes.values);
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
void add_repeated(const GridRow& row, GridRow& first, GridRows& out) {
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
  first.values.push_back(row.values.front());
}

/// The axes that the baseline fixes, and with `joint` also those that move together with one of these in every grid.
std::vector<std::string> fixed_paths(const Design& design, bool joint) {
  const AxisLabels& fixed = design.baseline->axes.values;
  std::vector<std::string> paths, free;
  for (const Grid& grid : design.grids)
    for (const AxisGroup& group : grid.groups) {
      const bool is_fixed = std::any_of(group.begin(), group.end(),
                                        [&](const Axis& axis) { return find_value(fixed, axis.path) != nullptr; });
      for (const Axis& axis : group)
        (find_value(fixed, axis.path) != nullptr || (joint && is_fixed) ? paths : free).push_back(axis.path);
    }
  std::erase_if(paths,
                [&](const std::string& path) { return std::find(free.begin(), free.end(), path) != free.end(); });
  return paths;
}

/// Compares rows that agree at all axes but `fixed`. Where several baselines do, only `first` chooses one.
void match_baselines(const Design& design, const std::vector<std::string>& fixed, bool first,
                     std::vector<GridRow>& rows) {
  const auto strip_of = [&](const AxisLabels& values) {
    std::string strip;
    for (const std::string& path : design.paths)
      if (const std::string* text = find_value(values, path);
          text != nullptr && std::find(fixed.begin(), fixed.end(), path) == fixed.end())
        strip += concat(path, "=", *text, "\n");
    return strip;
  };
  std::unordered_map<std::string, std::optional<std::size_t>> row_of_strip;
  for (const bool own : {true, false})
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::size_t v = own ? 0 : 1; v < (own ? 1 : rows[r].values.size()); ++v)
        if (matches(rows[r].values[v], design.baseline->axes.values)) {
          const auto [known, added] = row_of_strip.try_emplace(strip_of(rows[r].values[v]), r);
          if (!added && !first && known->second != r) known->second.reset();
        }
  for (GridRow& row : rows)
    for (const AxisLabels& values : row.values)
      if (const auto found = row_of_strip.find(strip_of(values)); found != row_of_strip.end() && !row.cell.baseline)
        row.cell.baseline = found->second;
}

/// Compares rows without a feature, and those with all, with the latter.
void match_whole_rows(const Design& design, std::vector<GridRow>& rows) {
  std::map<AxisLabels, std::size_t> row_of;
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (const AxisLabels& values : rows[r].values) row_of.try_emplace(values, r);
  for (GridRow& row : rows)
    for (const AxisLabels& values : row.values)
      if (const auto whole = with_all_features(values, design.grids); whole && !row.cell.baseline)
        if (const auto found = row_of.find(*whole); found != row_of.end()) row.cell.baseline = found->second;
}

void mark_apart(const Design& design, std::vector<GridRow>& rows, Problems& problems) {
  std::vector<std::string_view> labels;
  for (const GridRow& row : rows) labels.push_back(row.cell.label);
  for (const auto& [given, axes] : design.apart) {
    bool found = false;
    const auto fits = [&, &axes = axes](const AxisLabels& values) { return matches(values, axes.values); };
    for (GridRow& row : rows)
      if (given.is_string() ? row.cell.label == given.text : std::any_of(row.values.begin(), row.values.end(), fits))
        row.cell.apart = found = true;
    if (!found)
      problems.add(given.at,
                   given.is_string() ? unknown_word("row", given.text, labels) : "matches no combination of the sweep");
  }
  problems.throw_if_any_or_unused();
}

/// The names that "labels" show, each once.
void read_labels(const Design& design, const std::vector<GridRow>& rows, Problems& problems,
                 std::map<std::string, std::string>& labels) {
  const JsonMember* const given = design.root.find("labels");
  if (given == nullptr) return;
  if (!given->value.is_object()) problems.add(given->value.at, "expected an object, got " + describe(given->value));
  std::set<std::string> names, shown;
  for (const GridRow& row : rows) {
    names.insert(row.cell.label);
    for (const auto& [axis, value] : row.cell.axes) names.insert(value);
  }
  std::vector<std::string_view> candidates(names.begin(), names.end());
  candidates.insert(candidates.end(), {"eval/accuracy", "eval/loss", "eval/miou", "train/loss"});
  for (const JsonMember& member : given->value.members) {
    if (!member.value.is_string() || member.value.text.empty())
      problems.add(member.value.at, "expected a name to show, got " + describe(member.value));
    else if (!shown.insert(member.value.text).second)
      problems.add(member.value.at, concat("\"", member.value.text, "\" is shown for another name too"));
    else if (member.value.text != member.key && names.contains(member.value.text) &&
             given->value.find(member.value.text) == nullptr)
      problems.add(member.value.at, concat("\"", member.value.text, "\" is the name of another row or value"));
    if (!names.contains(member.key) && !is_metric(member.key))
      problems.add(member.key_at, unknown_word("row or metric", member.key, candidates));
    labels[member.key] = member.value.text;
  }
  problems.throw_if_any_or_unused();
}

}  // namespace

bool matches(const AxisLabels& values, const AxisLabels& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& one) {
    const std::string* text = find_value(values, one.first);
    return text != nullptr && *text == one.second;
  });
}

GridRows read_rows(Design& design, StartSources& starts, Problems& problems) {
  GridRows out;
  std::unordered_map<std::string, std::size_t> row_of_identity;
  const auto add = [&](const Grid& grid, const std::vector<std::size_t>& index) {
    const std::size_t r = out.rows.size();
    GridRow& row = out.rows.emplace_back();
    std::optional<std::string> identity = read_row(design, grid, index, starts, problems, row);
    if (identity) {
      const auto [known, added] = row_of_identity.try_emplace(*std::move(identity), r);
      if (added) return;
      GridRow& first = out.rows[known->second];
      if (first.grid != &grid || !report_no_feature(grid, row.values.front(), first.values.front(), problems))
        add_repeated(row, first, out);
    }
    out.rows.pop_back();
  };
  if (count_trials(design) > design.max_trials)
    problems.add(design.position_of("sweep"), "/sweep",
                 concat("more than ", design.max_trials, " trials; split the descriptor"));
  else
    for (const Grid& grid : design.grids)
      for (std::size_t c = 0; c < grid.size(design.max_trials); ++c) add(grid, combination(grid, c));
  const auto check = [&](const Choice& choice) {
    if (problems.empty() && !choice.found) problems.add(choice.axes.at, "matches no combination of the sweep");
  };
  for (const Choice& choice : design.exclude) check(choice);
  if (design.baseline) check(*design.baseline);
  if (design.tuned_for) check(*design.tuned_for);
  if (problems.empty() && out.rows.empty())
    problems.add(design.position_of("exclude"), "/exclude", "excludes every combination; leave at least one");
  problems.throw_if_any_or_unused();
  if (design.baseline)
    for (const bool joint : {false, true}) match_baselines(design, fixed_paths(design, joint), !joint, out.rows);
  match_whole_rows(design, out.rows);
  mark_apart(design, out.rows, problems);
  read_labels(design, out.rows, problems, out.labels);
  return out;
}

}  // namespace normlab
