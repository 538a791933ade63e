// Trials and their curves as tables for other programs: one column per setting and metric, with all digits.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

enum class DataFormat : std::uint8_t { csv, jsonl };

struct DataTable {
  std::vector<std::string> columns;
  std::vector<nlohmann::json> rows;   // flat objects; an absent key is a missing value
  std::vector<std::string> problems;  // trials that cannot be read, for standard error
  ExitCode outcome = ExitCode::done;  // exit code of a command that writes the table: the most serious fault
};

/// What is exported: the trials of an experiment, or all trials in a folder with what the plans there say about them.
struct TrialSource {
  const ResultStore& store;
  const Experiment* experiment = nullptr;  // null: the folder
};

/// One row per trial, finished or not. Columns, in this order: the trial's place in its experiment; its settings,
/// sorted by path; its metrics as stored, sorted by name; how it ended; its provenance, sorted by key. An axis that
/// covers several settings appears as its label in the table (a placement's name, "S/16").
DataTable trial_data(const TrialSource& source);

/// One row per trial, step and metric. A value that is not finite is missing, and "nonfinite"
/// says "nan", "inf" or "-inf".
DataTable curve_data(const TrialSource& source);

/// csv: RFC 4180 with a header line; a missing value is an empty cell, a list is JSON. jsonl: one object per line with
/// every column; a missing value is null.
std::string data_text(const DataTable& table, DataFormat format);

}  // namespace normlab
