// The table of an experiment out of its plan and what is on disk.
#pragma once

#include <filesystem>
#include <span>

#include "experiments/descriptor/experiment.h"
#include "experiments/results/store.h"
#include "experiments/results/table_model.h"

namespace normlab {

/// Rows from the plan, so that running, failed, diverged and missing trials show; a result that cannot be read is
/// named in its row and in TableModel::problems. InputError for a metric that no finished trial has (with the one that
/// was meant), and for what selected_metric() and table_model() refuse. Notes how many seeds the experiment had when it
/// was looked at (note_tabled_seeds()), so that later tables can say that they were raised.
TableModel sweep_table_model(const Experiment& experiment, const ResultStore& store, const TableOptions& options);

/// The same without a descriptor: of every trial in these folders, each a folder of results or of one trial. Rows are
/// trials that differ by their seed alone; their axes are the settings that differ; no row is a baseline. A
/// placement has the name that its plan or the program gives it. InputError where a plan is damaged.
TableModel folders_table_model(std::span<const std::filesystem::path> folders, const TableOptions& options);

/// What sweep_table_model makes a model of.
TableInput sweep_table_input(const Experiment& experiment, const ResultStore& store, const TableOptions& options);

// How many seeds an experiment had when its table was read: seeds that are added by hand after a look at the table make
// its intervals too narrow, so they are counted and shown.

/// Writes OUT/experiments/<stem>/tabled/seeds-<n>.json unless it is there, n the seeds of the row that has most.
/// Nothing where the experiment was never run here, or where no row has two finished seeds to compare. False where the
/// folder cannot be written: a table is printed all the same.
bool note_tabled_seeds(const Experiment& experiment, const ResultStore& store);

/// "The seeds were raised after the table had been read with 3, then 5: ..."; "" where they were not. Numbers that a
/// two-stage rule fixed are no raise, nor are tables of rows that this experiment has no more.
std::string raised_seeds_note(const Experiment& experiment, const ResultStore& store);

}  // namespace normlab
