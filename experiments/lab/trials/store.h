// The results folder: OUT/trials/<id>/{config.json, claim, result.json, attempt-K/{lease, metrics.jsonl, times.jsonl,
// checkpoint.safetensors, log}} and OUT/experiments/<stem>/plan.json. All state is in these files; any number of
// processes may read and write them at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/words.h"
#include "experiments/lab/trials/claim.h"
#include "experiments/lab/trials/trial_result.h"

namespace normlab {

/// Metadata key of a checkpoint: the id of its trial.
inline constexpr const char* kTrialKey = "normlab.trial";
/// Key of a result's provenance: labels in a list were read as names where they are names. Older results lack it.
inline constexpr const char* kLabelsKey = "labels";
/// Metadata key: data_hash() of its training and evaluation data.
inline constexpr const char* kDataHashKey = "normlab.data";
/// Metadata key: the length of its attempt's metrics.jsonl when the checkpoint was saved, in decimal.
inline constexpr const char* kMetricsBytesKey = "normlab.metrics_bytes";
/// Metadata key: SHA-256 of those bytes, to detect damage.
inline constexpr const char* kMetricsHashKey = "normlab.metrics_sha256";

/// - missing: not begun
/// - stopped: begun, but no process works on it; the next run resumes it
/// - running: a process works on it
/// - failed, diverged, done: according to its result. A failed trial has no value for the table.
enum class TrialState : std::uint8_t { missing, stopped, running, failed, diverged, done };
constexpr auto stated_words(TrialState) {
  return words<TrialState>("missing", "stopped", "running", "failed", "diverged", "done");
}

struct TrialStatus {
  TrialState state = TrialState::missing;
  double progress = 0;  // 0 to 1
  std::string message;  // why it failed or diverged, or which process runs it
  std::optional<TrialResult> result;
  std::optional<Owner> owner;  // of a running trial
  bool finished() const { return state == TrialState::done || state == TrialState::diverged; }
};

/// The checkpoint from which a trial can resume.
struct ResumePoint {
  std::int64_t attempt = 0;
  std::filesystem::path checkpoint;
  std::uint64_t metrics_bytes = 0;
  std::map<std::string, std::string> metadata;  // of the checkpoint
};

/// The note of an experiment that lists its trials (experiments/lab/sweep/plan_file.h); the last run writes it anew.
inline constexpr const char* kPlanNote = "plan.json";

/// NAME.bench.jsonl holds timings of `bench`, not trials.
inline constexpr std::string_view kTimingsSuffix = ".bench";

/// Joins two notes of one name in `folder`, as text. Notes in STEM/tabled say which rows were shown; the joined note
/// has the rows of both; of two plans (STEM/plan), `a` counts. None for notes of decisions, which cannot be joined.
std::optional<std::string> joined_notes(const std::filesystem::path& folder, const nlohmann::json& a,
                                        const nlohmann::json& b);

/// Files of a trial's folder, the last two of an attempt's.
inline constexpr const char *kConfigFile = "config.json", *kResultFile = "result.json", *kMetricsFile = "metrics.jsonl",
                            *kCheckpointFile = "checkpoint.safetensors";

struct ExportedTrial;  // exported.h
struct ExportedResults;

class TrialFolder {
 public:
  explicit TrialFolder(std::filesystem::path path, const ExportedTrial* exported = nullptr, FirstWins first_wins = {})
      : path_(std::move(path)), exported_(exported), first_wins_(std::move(first_wins)) {}
  const std::filesystem::path& path() const { return path_; }
  /// The entry of an exported file if the trial comes from one. The trial then has no folder: path() is only a name,
  /// and nothing can be written. Null otherwise.
  const ExportedTrial* exported() const { return exported_; }
  std::filesystem::path metrics(std::int64_t attempt) const { return attempt_folder(path_, attempt) / kMetricsFile; }
  std::filesystem::path checkpoint(std::int64_t attempt) const {
    return attempt_folder(path_, attempt) / kCheckpointFile;
  }
  std::filesystem::path log(std::int64_t attempt) const { return attempt_folder(path_, attempt) / "log"; }

  /// Writes config.json, with the folder, unless it exists.
  void write_config(std::string_view json) const;
  /// InputError if it is missing.
  std::string read_config() const;

  /// None if there is no result yet. InputError if the file is damaged or of a newer version, or if it has no seal and
  /// contradicts the files beside it (require_agreement() in trial_files.h).
  std::optional<TrialResult> load_result() const;
  /// The bytes of result.json, if it exists.
  std::optional<std::string> result_text() const;
  /// True if the trial has a result that says done or diverged.
  bool finished() const;
  /// Publishes by linking: false if another process was first, whose result is kept. A failed result is replaced by one
  /// that did not fail.
  bool publish_result(const TrialResult& result) const;

  /// Cleans up a finished trial: removes the claim of a process that was killed just after it published, and temporary
  /// files of killed processes. Does nothing while a process holds the claim.
  void tidy() const;

  TrialStatus status() const;

  /// As Claim::acquire(), but also none if there is a result other than `retried`. If the result equals `retried` (a
  /// result_text()), it is moved to the new attempt's folder as failed.json or diverged.json. Otherwise that folder
  /// contains only its lease.
  std::optional<Claim> claim(double lease_seconds = kLeaseSeconds,
                             const std::optional<std::string>& retried = {}) const;
  /// break_claim() of its claim.
  bool break_claim(const Owner& owner) const { return normlab::break_claim(path_, owner, first_wins_); }

  /// Whether latest_checkpoint() has a checkpoint to consider, damaged or not.
  bool has_checkpoint() const { return !resumable_attempts().empty(); }
  /// The latest attempt with a readable checkpoint and metrics that reach as far. Attempts before a divergence that is
  /// being retried are excluded, since they would diverge again. Each skipped attempt adds a line to `problems`, for
  /// the log and the user.
  std::optional<ResumePoint> latest_checkpoint(std::vector<std::string>& problems) const;
  /// Copies to `attempt` the metrics of the attempt it resumes, up to the checkpoint.
  void copy_metrics(const ResumePoint& from, std::int64_t attempt) const;

 private:
  /// The attempts with a checkpoint, the latest first, without those before a divergence that is being retried.
  std::vector<std::int64_t> resumable_attempts() const;
  std::filesystem::path path_;
  const ExportedTrial* exported_;
  FirstWins first_wins_;
};

class ResultStore {
 public:
  /// `out` is created with the first write. InputError if it is empty, as with an unset shell variable.
  explicit ResultStore(std::filesystem::path out, FirstWins first_wins = {});
  /// The trials of a file written by `normlab export`, or of all such files (*.jsonl) below a folder, except timings
  /// (NAME.bench.jsonl); read-only. Of the same trial's results one counts (counts_instead()). InputError as
  /// read_export(), for a folder without trials, and for results or notes that contradict each other.
  static ResultStore exported(const std::filesystem::path& file);
  /// The contents of the exported files; null for a folder of results.
  const ExportedResults* exported() const { return exported_.get(); }
  const std::filesystem::path& out() const { return out_; }
  /// Of the process that writes to it.
  const FirstWins& first_wins() const { return first_wins_; }

  /// InputError for an id that is not a plain file name. The folder must not outlive an exported store.
  TrialFolder trial(const std::string& id) const;
  bool finished(const std::string& id) const { return trial(id).finished(); }
  /// Ids of all trials in the store, sorted. Names that begin with a dot are not ids: an interrupted merge leaves them.
  std::vector<std::string> trial_ids() const;

  /// The experiments that have notes, sorted.
  std::vector<std::string> experiments() const;

  /// Names of the notes in OUT/experiments/<folder>/, sorted. A note records what was decided ("STEM/fixed") or looked
  /// at ("STEM/tabled").
  std::vector<std::string> note_names(const std::string& folder) const;
  /// The note of this name; null if there is none. InputError if it is damaged or of a newer version.
  nlohmann::json note(const std::string& folder, const std::string& name) const;

  /// Replaces OUT/experiments/<stem>/plan.json, and removes temporary files that killed runs left beside it.
  void write_plan(const std::string& stem, std::string_view json) const;

 private:
  std::filesystem::path out_;
  FirstWins first_wins_;
  std::shared_ptr<const ExportedResults> exported_;
};

}  // namespace normlab
