// OUT/experiments/<stem>/plan.json: which trials an experiment is made of, for people and for tools that read results.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/descriptor/experiment.h"
#include "experiments/results/store.h"

namespace normlab {

/// About, the descriptor's file, rows with their labels, baseline and chosen values, and the trials' ids and seeds, as
/// JSON; with the number of seeds where two stages fixed it.
std::string plan_json(const Experiment& experiment);

/// A trial as a plan names it.
struct PlannedTrial {
  std::string id, row, baseline;  // labels of its row and of the row that this one's gain is over, "" for none
  std::map<std::string, std::string> axes;  // of its row: path -> label
  std::uint64_t seed = 0;
  bool tuning = false;
};

/// Those of an experiment, row by row; then those that choose values, unless they are in a row as well.
std::vector<PlannedTrial> planned_trials(const Experiment& experiment);

struct PlanFile {
  std::string stem, descriptor;  // descriptor: "" in plans of former versions
  std::vector<PlannedTrial> trials;
};

/// The plan that the last run of a descriptor of this name left; none where there was none. InputError where it is
/// damaged.
std::optional<PlanFile> read_plan_file(const ResultStore& store, const std::string& stem);

/// All plans in OUT, by name.
std::vector<PlanFile> read_plan_files(const ResultStore& store);

/// What a descriptor that was edited since its last run changes. Nothing for one that never ran.
struct PlanChange {
  std::vector<std::size_t> added;     // indices of trials that the former plan has not
  std::vector<PlannedTrial> dropped;  // trials of the former plan that are none of this experiment; they stay on disk
  bool empty() const { return added.empty() && dropped.empty(); }
};
PlanChange plan_change(const Experiment& experiment, const ResultStore& store);

/// The change in words, "" for none: "since its last run 2 trials are new (dpn, seed 3; dpn, seed 4); 1 is no longer
/// part of it and stays on disk (pre_pre, seed 0)".
std::string describe(const PlanChange& change, const Experiment& experiment);

/// For somebody who looks at a plan with missing trials: "3 finished trials of the last run of long are not in this
/// plan
/// (...); a --set of that run is missing here, or one here was not there". "" where there are none.
std::string other_settings_note(const Experiment& experiment, const ResultStore& store);

}  // namespace normlab
