// What must hold of whatever was read as a descriptor.
#pragma once

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/experiment.h"
#include "tests/fuzz/target.h"

namespace normlab::fuzz {

constexpr std::size_t kTrials = 48;  // a sweep of thousands would only take time

/// Each trial keeps its id through its canonical and its full text: an InputError here is a finding.
inline void check(const Experiment& experiment) {
  require(!experiment.trials.empty() && experiment.trials.size() <= kTrials, "too many trials, or none");
  for (const Cell& row : experiment.rows) {
    require(!row.baseline || *row.baseline < experiment.rows.size(), "a baseline beyond the rows");
    for (const std::size_t trial : row.trials) require(trial < experiment.trials.size(), "a trial beyond the trials");
  }
  for (const Trial& trial : experiment.trials) {
    require(trial_id(config_from_json(canonical_json(trial.config), "canonical")) == trial.id,
            "the canonical text has another id");
    require(trial_id(config_from_json(full_json(trial.config), "full")) == trial.id, "the full text has another id");
    require(model_from_json(canonical_model_json(trial.config.model), "model") == trial.config.model,
            "the model's text gives another model");
    require(model_cost(trial.config.model).parameters > 0, "a model without parameters");
  }
}

}  // namespace normlab::fuzz
