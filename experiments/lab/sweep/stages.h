// Sweeps whose later trials depend on earlier results: `tune` and two-stage seeds. A decision is written once to
// OUT/experiments/<stem>/fixed/, published by linking, so that all processes use the same one.
#pragma once

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// Whether decisions are recorded. A run records them before it starts the trials that depend on them. Commands that
/// only read use the recorded decisions, or what the results would decide.
enum class Record : std::uint8_t { no, yes };

/// All known trials: those of `loaded` (from load_experiment) and those that follow from finished results.
/// `more_to_come`: others follow once these are finished; a failed trial holds them up. Without "tune" and two-stage
/// seeds, the experiment is returned unchanged and no file is read. InputError for a damaged or contradictory record,
/// or for a chosen value that does not fit the row; EnvironmentError if a decision cannot be written.
Experiment next_stage(Experiment loaded, const ResultStore& store, Record record = Record::no);

}  // namespace normlab
