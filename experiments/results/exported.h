// Results as one file, for archives and repositories: a line a trial with its settings, its result.json, its curve and
// a seal over all of these; and a line a note that a table depends on (store.h). Checkpoints, states and correct.bits
// are not in it.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/results/metrics_log.h"
#include "experiments/results/store.h"

namespace normlab {

/// A trial of such a file.
struct ExportedTrial {
  std::string where;                                // "FILE:12", for messages
  std::optional<TrialResult> result;                // none: the file does not have this trial
  std::optional<std::vector<MetricsLine>> metrics;  // none: exported without
};

struct ExportedResults {
  std::map<std::string, ExportedTrial> trials;                         // by id
  std::map<std::string, std::map<std::string, nlohmann::json>> notes;  // by folder, then by name
};

/// The line of a trial that has a result, with its newline; `full`: with the curve, which a failed trial has none of.
/// A result without a seal stays one. InputError where a file of the trial is missing or damaged.
std::string export_line(const TrialFolder& trial, bool full);
/// The line of a note.
std::string export_note(const ResultStore& store, const std::string& folder, const std::string& name);

/// All of a file. Lines whose "program" is another one hold no trial of ours: their seals are checked, and nothing of
/// them is given back. InputError, with line and JSON pointer, for anything but what these functions write, and where
/// settings, result, curve and their seals contradict each other: the file is refused as a whole.
ExportedResults read_export(const std::filesystem::path& file);

}  // namespace normlab
