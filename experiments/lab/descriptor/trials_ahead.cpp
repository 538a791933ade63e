#include "experiments/lab/descriptor/trials_ahead.h"

#include <algorithm>
#include <set>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/tune.h"

namespace normlab {
namespace {

/// The winning candidates of the stages that the row has completed.
std::vector<std::size_t> chosen_of(const Cell& row, const std::vector<TuneStage>& stages) {
  std::vector<std::size_t> chosen;
  std::size_t at = 0;
  for (const TuneStage& stage : stages) {
    const auto is_chosen = [&](std::size_t candidate) {
      const std::vector<TunedValue> values = stage.values(candidate);
      return at + values.size() <= row.chosen.size() &&
             std::equal(
                 values.begin(), values.end(), row.chosen.begin() + std::ptrdiff_t(at),
                 [](const TunedValue& a, const TunedValue& b) { return a.path == b.path && a.label == b.label; });
    };
    std::size_t candidate = 0;
    while (candidate < stage.candidates() && !is_chosen(candidate)) ++candidate;
    if (candidate == stage.candidates()) break;
    chosen.push_back(candidate);
    at += stage.values(candidate).size();
  }
  return chosen;
}

/// Adds what follows for the rows that are still being tuned.
void add_tuned(Experiment& e) {
  for (std::size_t r = 0; r < e.rows.size(); ++r) {
    if (!e.rows[r].trials.empty()) continue;
    std::vector<std::size_t> chosen = chosen_of(e.rows[r], e.tuned->stages());
    while (chosen.size() < e.tuned->stages().size()) {
      e.tuned->add_stage(e, r, chosen);
      chosen.push_back(0);
    }
    const TrialConfig config = e.tuned->config(r, chosen);
    for (const std::uint64_t seed : e.tuned->seeds(r)) add_trial(e, r, config, seed);
  }
  add_start_trials(e);
}

}  // namespace

TrialsAhead trials_ahead(const Experiment& known) {
  TrialsAhead ahead;
  if (!known.more_to_come) return ahead;
  std::set<std::string> ids;
  for (const Trial& trial : known.trials) ids.insert(trial.id);
  Experiment e = known;
  if (e.tuned) add_tuned(e);
  for (const Trial& trial : e.trials)
    if (ids.insert(trial.id).second) ahead.certain.push_back(trial);
  if (!e.two_stage || e.fixed_seeds) return ahead;
  for (const Cell& row : e.rows) {
    Trial trial = e.trials[row.trials.front()];
    const std::size_t count = e.two_stage->max - row.trials.size();
    if (count == 0) continue;
    trial.config.seed = row.trials.size();
    ahead.possible.emplace_back(trial, count);
    for (auto start = row.start; start && !start->seed; start = start->start) {
      trial.config = with_seed(start->config, start->start, trial.config.seed);
      trial.purpose = Purpose::start;
      if (ids.insert(trial_id(trial.config)).second) ahead.possible.emplace_back(trial, count);
    }
  }
  return ahead;
}

}  // namespace normlab
