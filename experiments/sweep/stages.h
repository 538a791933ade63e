// Sweeps whose later trials depend on the results of earlier ones: `tune` and two-stage seeds. What was decided is
// written once to OUT/experiments/<stem>/fixed/, published by link, so that every process goes on with the same.
#pragma once

#include <string>
#include <vector>

#include "experiments/descriptor/experiment.h"
#include "experiments/results/store.h"

namespace normlab {

/// Whether decisions are written down. A run does so before it starts the trials that follow from them; commands that
/// only read take what is written, and what the results would decide.
enum class Record : std::uint8_t { no, yes };

/// All trials that exist by now: those of `loaded` (as load_experiment gives it) and those that finished results bring
/// up. `more_to_come` says that others follow once these are finished; a failed trial holds them up. An experiment with
/// neither "tune" nor two-stage seeds comes back as it was, and no file is read. InputError for a damaged or
/// contradictory record, or a chosen value that does not fit the row; EnvironmentError where a decision cannot be
/// written.
Experiment next_stage(Experiment loaded, const ResultStore& store, Record record = Record::no);

/// How many trials may follow, in words; "" where none do.
std::string trials_to_come(const Experiment& experiment);

/// Sentences for the footer of a table, each without its full stop's line break: what was tuned or fixed and for which
/// row, chosen values at an edge, two-stage seeds (width reached or not), what is still to come.
std::vector<std::string> stage_notes(const Experiment& experiment);

}  // namespace normlab
