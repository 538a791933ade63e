// The table of an experiment, from its plan and its results.
#pragma once

#include <filesystem>
#include <span>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/tables/table_model.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// The rows come from the plan, so all trials are shown, whatever their state. A result that cannot be read is named in
/// its row and in TableModel::problems. InputError for a metric that no finished trial has (with a suggestion), and as
/// selected_metric() and table_model(). Records the number of seeds (note_tabled_seeds()).
TableModel sweep_table_model(const Experiment& experiment, const ResultStore& store, const TableOptions& options);

/// The same without a descriptor, for all trials in these folders; each is a results folder or a trial's folder. Trials
/// that differ only by seed form a row. The axes are the settings that differ, and no row is a baseline. Placements are
/// named by their plan or by the program. InputError if a plan is damaged.
TableModel folders_table_model(std::span<const std::filesystem::path> folders, const TableOptions& options);

/// The input from which sweep_table_model() builds the model.
TableInput sweep_table_input(const Experiment& experiment, const ResultStore& store, const TableOptions& options);

/// Appends to the rows, for each group, the mean over its benchmarks: a row for each combination of the other axes. A
/// seed's value is the mean over the benchmarks, so that intervals and gains are those of any row: over training
/// randomness, paired by seed. A seed for which a benchmark has no value has none, and a remark names the benchmarks
/// that lack a row or a value.
void add_benchmark_means(TableInput& input, const std::vector<BenchmarkGroup>& groups, const TableOptions& options);

// Records the number of seeds at the time a table is read. Seeds added by hand after looking at the table make its
// intervals too narrow, so such additions are counted and shown.

/// Writes OUT/experiments/<stem>/tabled/seeds-<n>.json unless it exists; n is the largest number of seeds in a
/// row. Does nothing if the experiment never ran here, or if no row has two finished seeds. False if the folder is
/// not writable.
bool note_tabled_seeds(const Experiment& experiment, const ResultStore& store);

/// "Seeds were raised 2 times after results had been read (with 3, then 5; now 7): ..."; "" if they were not. Numbers
/// fixed by a two-stage rule do not count as raised, nor do tables whose rows are no longer in the experiment.
std::string raised_seeds_note(const Experiment& experiment, const ResultStore& store);

}  // namespace normlab
