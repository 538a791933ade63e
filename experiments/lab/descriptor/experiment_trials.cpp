#include <set>

#include "core/error.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/experiment.h"

namespace normlab {

void add_trial(Experiment& out, std::size_t row, const TrialConfig& config, std::uint64_t seed) {
  Cell& cell = out.rows[row];
  Trial trial{with_seed(config, cell.start, seed), {}, row, cell.trials.size(), concat(cell.label, ", seed ", seed)};
  trial.id = trial_id(trial.config);
  cell.trials.push_back(out.trials.size());
  out.trials.push_back(std::move(trial));
}

TrialConfig with_seed(const TrialConfig& config, const std::shared_ptr<const StartRow>& start, std::uint64_t seed) {
  TrialConfig out = config;
  out.seed = seed;
  if (start) out.start.trial = trial_id(with_seed(start->config, start->start, start->seed.value_or(seed)));
  return out;
}

void add_start_trials(Experiment& e) {
  std::erase_if(e.trials, [](const Trial& trial) { return trial.purpose == Purpose::start; });
  std::set<std::string> known;
  for (const Trial& trial : e.trials) known.insert(trial.id);
  for (Cell& row : e.rows) row.starts.clear();
  const std::size_t of_rows = e.trials.size();
  for (std::size_t t = 0; t < of_rows; ++t) {
    const std::size_t r = e.trials[t].row;
    std::uint64_t seed = e.trials[t].config.seed;
    for (std::shared_ptr<const StartRow> start = e.rows[r].start; start; start = start->start) {
      seed = start->seed.value_or(seed);
      Trial trial{with_seed(start->config, start->start, seed), {}, r, 0, concat(start->label, ", seed ", seed)};
      trial.id = trial_id(trial.config);
      trial.purpose = Purpose::start;
      if (!known.insert(trial.id).second) continue;
      e.rows[r].starts.push_back(e.trials.size());
      e.trials.push_back(std::move(trial));
    }
  }
}

const Trial& first_trial(const Experiment& experiment, const Cell& row) {
  return experiment.trials[row.trials.empty() ? row.tuning.front() : row.trials.front()];
}

}  // namespace normlab
