#include "experiments/sweep/sweep_table.h"

#include "core/error.h"
#include "experiments/sweep/trial_seed.h"

namespace normlab {

TableInput sweep_table_input(const Experiment& experiment, const ResultStore& store, const TableOptions& options) {
  TableInput input;
  input.about = experiment.about;
  input.name = experiment.stem;
  input.axes = experiment.axes;
  set_unit(input, options.metric);
  const bool share = options.metric.ends_with("accuracy");
  for (const Cell& row : experiment.rows) {
    TableRow out;
    out.label = row.label;
    out.baseline = row.baseline;
    for (const std::string& path : experiment.axes) {
      std::string value;
      for (const auto& [axis, label] : row.axes)
        if (axis == path) value = label;
      out.axes.push_back(std::move(value));
    }
    if (share && !row.trials.empty())
      out.chance = chance_accuracy(experiment.trials[row.trials.front()].config.model);
    input.rows.push_back(std::move(out));
  }
  SeedReader reader(options);
  for (std::size_t r = 0; r < experiment.rows.size(); ++r)
    for (const std::size_t t : experiment.rows[r].trials)
      input.rows[r].seeds.push_back(
          reader.read(store.trial(experiment.trials[t].id), experiment.trials[t].config.seed));
  reader.require_metric();
  if (options.bootstrap)
    for (const TableRow& row : input.rows) {
      auto& bits = input.correctness.emplace_back();
      for (const TableSeed& seed : row.seeds) bits.push_back(read_seed_correctness(store.trial(seed.trial), seed));
    }
  return input;
}

TableModel sweep_table_model(const Experiment& experiment, const ResultStore& store, const TableOptions& options) {
  return table_model(sweep_table_input(experiment, store, options), options);
}

}  // namespace normlab
