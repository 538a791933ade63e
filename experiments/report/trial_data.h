// Trials and their curves as tables for other programs: a column a setting and a metric, numbers in full.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "experiments/descriptor/experiment.h"
#include "experiments/results/store.h"

namespace normlab {

enum class DataFormat : std::uint8_t { csv, jsonl };

struct DataTable {
  std::vector<std::string> columns;
  std::vector<nlohmann::json> rows;   // flat objects; a key that is not there is a missing value
  std::vector<std::string> problems;  // trials that cannot be read, for standard error
  ExitCode outcome = ExitCode::done;  // what a command that writes the table ends with: the gravest fault
};

/// What is exported: the trials of an experiment, or all trials in a folder with what the plans there say of them.
struct DataSource {
  const ResultStore& store;
  const Experiment* experiment = nullptr;  // null: the folder
};

/// A row a trial, whether it is finished or not. Columns, in this order: what the trial is to its experiment; its
/// settings, sorted by path; its metrics as stored, sorted by name; how it ended; its provenance, sorted by key. An
/// axis that stands for several settings has its label in the table (a placement's name, "S/16").
DataTable trial_data(const DataSource& source);

/// A row a trial, step and metric. A value that is not finite is missing, and "nonfinite" says "nan", "inf" or "-inf".
DataTable curve_data(const DataSource& source);

/// csv: RFC 4180 with a line of headings; a missing value is an empty cell, a list is JSON. jsonl: an object a line
/// with every column; a missing value is null.
std::string data_text(const DataTable& table, DataFormat format);

}  // namespace normlab
