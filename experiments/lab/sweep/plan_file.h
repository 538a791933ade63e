// OUT/experiments/<stem>/plan.json lists the trials of an experiment, for readers and for tools that process results.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/words.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// The plan as JSON: `about`, the descriptor's file, the rows with labels, baseline and chosen values, and the ids and
/// seeds of the trials. If two stages fixed the number of seeds, it is included. So is the descriptor with all that it
/// reads, if it can be written so.
std::string plan_json(const Experiment& experiment);
/// The note without the folder of the descriptor's file.
nlohmann::json anonymous_plan(const nlohmann::json& plan);

struct PlannedTrial {
  std::string id, row, baseline;            // labels of its row and of the row that its gain refers to, "" for none
  std::map<std::string, std::string> axes;  // of its row: path -> label
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::table;
  /// "", "tuning, " or "start, ", to go before the seed.
  std::string purpose_words() const { return purpose == Purpose::table ? "" : concat(word_of(purpose), ", "); }
};

/// The trials of an experiment, row by row, followed by those of other purposes that are not part of a row.
std::vector<PlannedTrial> planned_trials(const Experiment& experiment);

struct PlanFile {
  std::string stem, descriptor;  // descriptor: its file; "" in plans of older versions
  std::vector<PlannedTrial> trials;
  WholeDescriptor whole;  // without text in plans of older versions
};

/// The plan left by the last run of a descriptor with this name, if any. InputError if it is damaged.
std::optional<PlanFile> read_plan_file(const ResultStore& store, const std::string& stem);

/// All plans in OUT or in the archives, by name.
std::vector<PlanFile> read_plan_files(const ResultStore& store);

/// How the plan changed because the descriptor was edited after its last run. Empty if it never ran.
struct PlanChange {
  std::vector<std::size_t> added;     // indices of trials that the former plan lacks
  std::vector<PlannedTrial> dropped;  // trials that only the former plan has; they stay on disk
  /// Of rows that both plans have with other trials: from the former plan to this one. Without rows whose former trials
  /// cannot be read.
  std::vector<SettingDifference> settings;
};
PlanChange plan_change(const Experiment& experiment, const ResultStore& store);

/// The change in words, "" for none: "since its last run 2 trials are new (dpn, seed 3; dpn, seed 4); 1 is no longer
/// part of it and stays on disk (pre_pre, seed 0); settings that differ: train.optimizer.lr 0.001 -> 0.003".
std::string describe(const PlanChange& change, const Experiment& experiment);

/// A hint for a plan with missing trials: "3 trials of the last run of long have results and are not in this plan
/// (...): that run had other settings, from --set or in the file: train.epochs 6 -> 8". "" if there are none.
std::string other_settings_note(const Experiment& experiment, const ResultStore& store);

}  // namespace normlab
