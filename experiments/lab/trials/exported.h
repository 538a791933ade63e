// Results as one file, for archives and repositories. A trial's line holds its settings, result.json and curve, with a
// seal over all of them. A note's line holds a note that a table depends on (store.h). Checkpoints, states and
// correct.bits are not included.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

struct ExportedTrial {
  std::string where;                                // "FILE:12", for error messages
  TrialConfig config{};                             // its settings
  std::optional<TrialResult> result;                // none: the file does not contain this trial
  std::string unsealed_text{};                      // of a result without a seal, which is never written anew
  std::optional<std::vector<MetricsLine>> metrics;  // none: exported without curves
};

struct ExportedResults {
  std::map<std::string, ExportedTrial> trials;                         // by id
  std::map<std::string, std::map<std::string, nlohmann::json>> notes;  // by folder, then by name
};

/// The line of a trial with a result, newline included. `full` adds the curve, except for a failed trial. A result
/// without a seal stays unsealed. `anonymous` leaves out the host's name and the folders of absolute paths, and seals
/// the result again. InputError if a file of the trial is missing or damaged.
std::string export_line(const TrialFolder& trial, bool full, bool anonymous = false);
/// A note's line, newline included. InputError if it is too long.
std::string export_note(const std::string& folder, const std::string& name, const nlohmann::json& note);

/// The files that a run leaves, as far as the archive holds them, by path below the trial's folder: its settings, its
/// result and, with a curve, the metrics.
std::vector<std::filesystem::path> exported_files(const ExportedTrial& trial);
/// The text of one of them.
std::string exported_text(const ExportedTrial& trial, const std::filesystem::path& file);

/// Reads a whole file. Lines with another "program" are not returned, but their seals are checked. InputError, with
/// line and JSON pointer, for anything that the functions above do not write, and where settings, result, curve and
/// their seals contradict each other. The file is then refused as a whole.
/// `may_lack_trials`: also for a file without trials of normlab.
ExportedResults read_export(const std::filesystem::path& file, bool may_lack_trials = false);

}  // namespace normlab
