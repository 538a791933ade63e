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
/// was looked at (tabled_seeds.h), so that later tables can say that they were raised.
TableModel sweep_table_model(const Experiment& experiment, const ResultStore& store, const TableOptions& options);

/// The same without a descriptor: of every trial in these folders, each a folder of results or of one trial. Rows are
/// trials that differ by their seed alone; their axes are the settings that differ; no row is a baseline.
TableModel folders_table_model(std::span<const std::filesystem::path> folders, const TableOptions& options);

/// What sweep_table_model makes a model of.
TableInput sweep_table_input(const Experiment& experiment, const ResultStore& store, const TableOptions& options);

}  // namespace normlab
