#include "experiments/lab/tables/sweep_table.h"

#include <fmt/core.h>

#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/sweep/stages.h"
#include "experiments/lab/tables/lr_sensitivity.h"
#include "experiments/lab/tables/stage_notes.h"
#include "experiments/lab/tables/table_groups.h"
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
  if (!cell.trials.empty()) row.chance = chance_of(metric, experiment.trials[cell.trials.front()].config.model);
  for (const TunedValue& value : cell.chosen) row.remarks.push_back(chosen_words(value));
  if (cell.trials.empty()) row.remarks.push_back("being tuned");
  return row;
}

}  // namespace

TableInput sweep_table_input(const Experiment& experiment, const ResultStore& store, const TableOptions& options) {
  TableInput input;
  input.about = experiment.about;
  input.name = experiment.stem;
  input.axes = experiment.axes;
  set_unit(input, options.metric);
  SeedReader reader(options);
  for (const Cell& cell : experiment.rows) {
    TableRow& row = input.rows.emplace_back(row_of(experiment, cell, options.metric));
    for (const std::size_t t : cell.trials)
      row.seeds.push_back(reader.read(store.trial(experiment.trials[t].id), experiment.trials[t].config));
  }
  reader.require_metric();
  if (options.bootstrap)
    for (const TableRow& row : input.rows) {
      auto& bits = input.correctness.emplace_back();
      for (const TableSeed& seed : row.seeds) bits.push_back(read_seed_correctness(store.trial(seed.trial), seed));
    }
  if (experiment.two_stage) {
    for (const Cell& cell : experiment.rows)
      for (std::size_t s = 0; s < std::min(cell.trials.size(), experiment.two_stage->first); ++s)
        input.first_stage.insert(experiment.trials[cell.trials[s]].config.seed);
  }
  if (options.lr_sensitivity) input = lr_sensitivity_input(input, options);
  add_benchmark_means(input, experiment.groups, options);
  for (std::string& note : stage_notes(experiment)) input.remarks.push_back(std::move(note));
  if (std::string note = raised_seeds_note(experiment, store); !note.empty()) input.remarks.push_back(std::move(note));
  return input;
}

TableModel sweep_table_model(const Experiment& experiment, const ResultStore& store, const TableOptions& given) {
  TableOptions options = given;
  options.metric = metric_for(task_of(first_trial(experiment, experiment.rows.front()).config.model), given.metric);
  const TableInput input = sweep_table_input(experiment, store, options);
  TableModel model = table_model(input, options.lr_sensitivity ? lr_sensitivity_options(options) : options);
  note_tabled_seeds(experiment, store);  // if the folder cannot be written, the table is shown anyway
  return model;
}

}  // namespace normlab
