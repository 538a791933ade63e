// Checks the files of a finished trial against its result.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/metrics/correctness.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// The trial's settings from its folder or its archive. InputError if they do not match its id.
TrialConfig read_trial_config(const TrialFolder& trial);

/// The attempt that the result belongs to; the last one with metrics if an early version did not record it.
std::int64_t result_attempt(const TrialFolder& trial, const TrialResult& result);

/// Seals of the final files in an ended attempt's folder: all but log, lease and times, and the checkpoint only if
/// `checkpoint`. EnvironmentError if a file cannot be read.
FileSeals seal_attempt(const TrialFolder& trial, std::int64_t attempt, bool checkpoint);

/// InputError, with both values, if the result contradicts the files beside it: the id and seed of the settings, the
/// last line of the metrics, the number of correct images and the data they belong to. Missing files are ignored.
void require_agreement(const TrialFolder& trial, const TrialResult& result);

/// Any NaN is the same as any other.
bool same_bits(double a, double b);

/// Two sources about one trial, and the advice to give if they contradict each other.
struct Witnesses {
  std::string result, other, advice;
};
/// The part of require_agreement() that compares a result with the last line of its metrics.
void require_last_line(const TrialResult& result, const std::optional<MetricsLine>& line, const Witnesses& at);

/// False for a trial of an archive without curves, also after it was copied into a folder of results.
bool has_curve(const TrialFolder& trial, const TrialResult& result);

/// The metrics of the attempt that the result belongs to. InputError if the file is missing or does not match its seal.
std::vector<MetricsLine> read_result_metrics(const TrialFolder& trial, const TrialResult& result);

/// Which images the run classifies correctly; none if it did not store them. InputError as above, if their number or
/// data do not match the result, and for a trial of an exported file.
std::optional<Correctness> read_result_correctness(const TrialFolder& trial, const TrialResult& result);

/// For a file in an attempt's folder, such as OUT/trials/ID/attempt-1/checkpoint.safetensors: InputError if it does not
/// match the trial's result, or if its own `trial_id` ("" if it has none) names another trial. Ignores files elsewhere.
void require_listed(const std::filesystem::path& file, const std::string& trial_id);

/// Checks `metrics` against the length (kMetricsBytesKey) and hash recorded in a checkpoint, and returns the length.
/// InputError if the file is shorter or differs.
std::uint64_t require_checkpoint_metrics(const SafetensorsFile& file, const std::filesystem::path& checkpoint,
                                         const std::filesystem::path& metrics);

/// In an attempt's folder: which files of its result's list are removed on purpose.
inline constexpr const char* kRemovedFile = "removed.json";
/// Records in the attempt's folder, before removal, that these files of its result's list are removed on purpose.
void note_removed(const std::filesystem::path& attempt_folder, const std::set<std::string>& names);
/// The recorded names; InputError if the note is damaged.
std::set<std::string> removed_files(const std::filesystem::path& attempt_folder);

}  // namespace normlab
