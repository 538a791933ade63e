#include "experiments/lab/tables/sweep_table.h"

#include <fmt/core.h>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/sweep/stages.h"
#include "experiments/lab/tables/external_rows.h"
#include "experiments/lab/tables/lr_sensitivity.h"
#include "experiments/lab/tables/stage_notes.h"
#include "experiments/lab/tables/to_match.h"
#include "experiments/lab/tables/trial_seed.h"

namespace normlab {
namespace {

/// Within a row, the last key of the path suffices.
std::string chosen_words(const TunedValue& value) {
  return fmt::format("tuned {}={}{}", value.path.substr(value.path.rfind('.') + 1), value.label,
                     value.at_edge ? " (edge)" : "");
}

TableRow row_of(const Experiment& experiment, const Cell& cell, const std::string& metric) {
  TableRow row;
  row.label = cell.label;
  row.baseline = cell.baseline;
  row.apart = cell.apart;
  for (const std::string& path : experiment.axes) {
    std::string value;
    for (const auto& [axis, label] : cell.axes)
      if (axis == path) value = label;
    row.axes.push_back(std::move(value));
  }
  if (!cell.trials.empty()) {
    const ModelConfig& model = experiment.trials[cell.trials.front()].config.model;
    row.chance = chance_of(metric, model);
    set_cost(row, model);
  }
  for (const TunedValue& value : cell.chosen) row.remarks.push_back(chosen_words(value));
  if (cell.trials.empty()) row.remarks.push_back("being tuned");
  return row;
}

std::string folder_of(const Experiment& e) { return e.stem + "/tabled"; }

std::size_t seeds_of(const Experiment& e) {
  std::size_t most = 0;
  for (const Cell& row : e.rows) most = std::max(most, row.trials.size());
  return most;
}

/// Whether the table shows a comparison: two seeds of one row have ended.
bool tells_something(const Experiment& e, const ResultStore& store) {
  const auto finished = [&](std::size_t t) {
    try {
      return store.finished(e.trials[t].id);
    } catch (const InputError&) {  // a damaged result, which the table reports
      return false;
    }
  };
  return std::any_of(e.rows.begin(), e.rows.end(), [&](const Cell& row) {
    std::size_t ended = 0;
    for (const std::size_t t : row.trials)
      if (finished(t) && ++ended == 2) return true;
    return false;
  });
}

}  // namespace

TableInput sweep_table_input(const Experiment& experiment, const ResultStore& store, const TableOptions& options) {
  TableInput input;
  input.about = experiment.about;
  input.name = experiment.stem;
  input.axes = experiment.axes;
  input.labels = experiment.labels;
  set_unit(input, options.metric);
  SeedReader reader(options);
  for (const Cell& cell : experiment.rows) {
    TableRow& row = input.rows.emplace_back(row_of(experiment, cell, options.metric));
    for (const std::size_t t : cell.trials)
      row.seeds.push_back(reader.read(store.trial(experiment.trials[t].id), experiment.trials[t].config));
  }
  reader.require_metric();
  if (experiment.two_stage) {
    for (const Cell& cell : experiment.rows)
      for (std::size_t s = 0; s < std::min(cell.trials.size(), experiment.two_stage->first); ++s)
        input.first_stage.insert(experiment.trials[cell.trials[s]].config.seed);
  }
  add_matches(input, experiment, store, options);
  if (options.lr_sensitivity) input = lr_sensitivity_input(input, options);
  add_benchmark_means(input, experiment.groups, options);
  for (std::string& note : stage_notes(experiment)) input.remarks.push_back(std::move(note));
  if (std::string note = raised_seeds_note(experiment, store); !note.empty()) input.remarks.push_back(std::move(note));
  return input;
}

TableModel sweep_table_model(const Experiment& experiment, const ResultStore& store, const TableOptions& given) {
  TableOptions options = given;
  options.metric = metric_for(task_of(first_trial(experiment, experiment.rows.front()).config.model), given.metric);
  TableInput input = sweep_table_input(experiment, store, options);
  add_external_rows(input, experiment, options.lr_sensitivity ? std::string(kLrSensitivity) : options.metric);
  TableModel model = table_model(input, options.lr_sensitivity ? lr_sensitivity_options(options) : options);
  note_tabled_seeds(experiment, store);  // if the folder cannot be written, the table is shown anyway
  return model;
}

bool note_tabled_seeds(const Experiment& e, const ResultStore& store) {
  const std::size_t seeds = seeds_of(e);
  const std::filesystem::path folder = store.out() / "experiments" / folder_of(e),
                              path = folder / concat("seeds-", seeds, ".json");
  if (seeds < 2 || store.exported() != nullptr || std::filesystem::exists(path)) return true;
  if (!std::filesystem::exists(folder.parent_path() / "plan.json") || !tells_something(e, store)) return true;
  nlohmann::ordered_json note{{"seeds", seeds}, {"by_rule", e.two_stage.has_value()}};
  for (const Cell& row : e.rows)
    if (!row.trials.empty()) note["rows"].push_back(e.trials[row.trials.front()].id);
  try {
    make_folders(folder);
    publish(path, write_note(note), store.first_wins());
  } catch (const EnvironmentError&) {
    return false;
  }
  return true;
}

std::string raised_seeds_note(const Experiment& e, const ResultStore& store) {
  const std::size_t now = seeds_of(e);
  std::set<std::size_t> before;
  std::unordered_set<std::string> rows;
  for (const std::string& name : store.note_names(folder_of(e))) {
    std::size_t seeds = 0;
    std::sscanf(name.c_str(), "seeds-%zu", &seeds);
    if (seeds == 0 || seeds >= now || name != concat("seeds-", seeds, ".json")) continue;
    if (rows.empty())
      for (const Trial& trial : e.trials) rows.insert(trial.id);
    const nlohmann::json note = store.note(folder_of(e), name);
    if (!note.contains("rows") || !note["rows"].is_array() || note.value("seeds", nlohmann::json()) != seeds)
      throw InputError(concat((store.out() / "experiments" / folder_of(e) / name).string(),
                              ": is not a note of a table; delete this file"));
    if (e.two_stage && note.value("by_rule", false)) continue;
    if (std::any_of(note["rows"].begin(), note["rows"].end(),
                    [&](const nlohmann::json& id) { return id.is_string() && rows.contains(id.get<std::string>()); }))
      before.insert(seeds);
  }
  if (before.empty()) return "";
  std::string numbers;
  for (const std::size_t n : before) numbers += concat(numbers.empty() ? "" : ", then ", n);
  return concat("Seeds were raised ", before.size() == 1 ? "once" : concat(before.size(), " times"),
                " after results had been read (with ", numbers, "; now ", now,
                "): adding seeds after looking makes intervals too narrow, and these are not corrected for it; "
                "two-stage seeds ({\"first\", \"max\", \"gain_halfwidth\"}) are.");
}

}  // namespace normlab
