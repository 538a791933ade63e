// How many seeds an experiment had when its table was read: seeds that are added by hand after a look at the table make
// its intervals too narrow, so they are counted and shown.
#pragma once

#include <string>

#include "experiments/descriptor/experiment.h"
#include "experiments/results/store.h"

namespace normlab {

/// Writes OUT/experiments/<stem>/tabled/seeds-<n>.json unless it is there, n the seeds of the row that has most.
/// Nothing where the experiment was never run here, or where no row has two finished seeds to compare. False where the
/// folder cannot be written: a table is printed all the same.
bool note_tabled_seeds(const Experiment& experiment, const ResultStore& store);

/// "The seeds were raised after the table had been read with 3, then 5: ..."; "" where they were not. Numbers that a
/// two-stage rule fixed are no raise, nor are tables of rows that this experiment has no more.
std::string raised_seeds_note(const Experiment& experiment, const ResultStore& store);

}  // namespace normlab
