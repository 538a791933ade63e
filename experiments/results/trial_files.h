// Files of a finished trial, compared with what its result says of them.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiments/base/safetensors.h"
#include "experiments/descriptor/config.h"
#include "experiments/results/metrics_log.h"
#include "experiments/results/store.h"
#include "experiments/statistics/correctness.h"

namespace normlab {

/// The trial's settings, as they lie in its folder. InputError where they are not those of its id.
TrialConfig read_trial_config(const TrialFolder& trial);

/// The attempt that the result is of: the last one where an early version did not record it.
std::int64_t result_attempt(const TrialFolder& trial, const TrialResult& result);

/// What is final in the folder of an attempt that has ended: all but its log and lease, and but its checkpoint unless
/// `checkpoint` stays. EnvironmentError where a file cannot be read.
FileSeals seal_attempt(const TrialFolder& trial, std::int64_t attempt, bool checkpoint);

/// InputError where the result contradicts what lies beside it, with both values: the settings' id and seed, the last
/// line of the metrics, the number of images that are right and their data. Files that are not there say nothing.
void require_agreement(const TrialFolder& trial, const TrialResult& result);

/// Two places that speak of one trial, and what to do where they contradict each other.
struct Witnesses {
  std::string result, other, advice;
};
/// The part of that which compares a result with the last line of its metrics.
void require_last_line(const TrialResult& result, const std::optional<MetricsLine>& line, const Witnesses& at);

/// The metrics of the attempt that the result is of. InputError where the file is not there or not the one that was
/// sealed.
std::vector<MetricsLine> read_result_metrics(const TrialFolder& trial, const TrialResult& result);

/// Which images the run gets right; none where it has not stored it. InputError as above, where their number or data
/// are not those of the result, and for a trial of an exported file.
std::optional<Correctness> read_result_correctness(const TrialFolder& trial, const TrialResult& result);

/// For a file that lies in an attempt's folder, as OUT/trials/ID/attempt-1/checkpoint.safetensors: InputError where it
/// is not the one that the trial's result lists, or says itself (`trial_id`, "" where it does not) that it is of
/// another trial. Nothing elsewhere.
void require_listed(const std::filesystem::path& file, const std::string& trial_id);

/// Compares `metrics` with what a checkpoint knows of it: the length (kMetricsBytesKey), which is returned, and the
/// hash of so many bytes. InputError where the file is shorter or another one.
std::uint64_t require_checkpoint_metrics(const SafetensorsFile& file, const std::filesystem::path& checkpoint,
                                         const std::filesystem::path& metrics);

/// Notes in the attempt's folder, before they go, that these files of its result's list were taken away on purpose.
void note_removed(const std::filesystem::path& attempt_folder, const std::set<std::string>& names);
/// What was noted; InputError for a damaged note.
std::set<std::string> removed_files(const std::filesystem::path& attempt_folder);

}  // namespace normlab
