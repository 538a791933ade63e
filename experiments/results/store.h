// Where results live: OUT/trials/<id>/{config.json, claim, result.json, attempt-K/{lease, metrics.jsonl,
// checkpoint.safetensors, log}} and OUT/experiments/<stem>/plan.json. The files are the truth: any number of processes
// may read and write at once.
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

#include "experiments/results/claim.h"
#include "experiments/results/trial_result.h"

namespace normlab {

/// Metadata key of a checkpoint: its trial's id.
inline constexpr const char* kTrialKey = "normlab.trial";
/// data_hash() of what it was trained and evaluated on.
inline constexpr const char* kDataHashKey = "normlab.data";
/// The length of its attempt's metrics.jsonl when it was saved, in decimal.
inline constexpr const char* kMetricsBytesKey = "normlab.metrics_bytes";
/// And SHA-256 of those bytes: metrics that were damaged are seen.
inline constexpr const char* kMetricsHashKey = "normlab.metrics_sha256";

/// - missing: nobody has begun it
/// - stopped: begun, and no process works on it: the next run resumes it
/// - running: a process works on it
/// - failed, diverged, done: as its result says. One that failed has none for the table.
enum class TrialState : std::uint8_t { missing, stopped, running, failed, diverged, done };

struct TrialStatus {
  TrialState state = TrialState::missing;
  double progress = 0;  // 0 to 1
  std::string message;  // why it failed or diverged; who runs it
  std::optional<TrialResult> result;
  std::optional<Owner> owner;  // of a running one
  bool finished() const { return state == TrialState::done || state == TrialState::diverged; }
};

/// Where a trial can go on.
struct ResumePoint {
  std::int64_t attempt = 0;
  std::filesystem::path checkpoint;
  std::uint64_t metrics_bytes = 0;
  std::map<std::string, std::string> metadata;  // of the checkpoint
};

struct ExportedTrial;  // exported.h
struct ExportedResults;

class TrialFolder {
 public:
  explicit TrialFolder(std::filesystem::path path, const ExportedTrial* exported = nullptr)
      : path_(std::move(path)), exported_(exported) {}
  const std::filesystem::path& path() const { return path_; }
  /// Of a trial of an exported file, which has no folder: path() is a name, and nothing can be written. Null otherwise.
  const ExportedTrial* exported() const { return exported_; }
  std::filesystem::path metrics(std::int64_t attempt) const { return attempt_folder(path_, attempt) / "metrics.jsonl"; }
  std::filesystem::path checkpoint(std::int64_t attempt) const {
    return attempt_folder(path_, attempt) / "checkpoint.safetensors";
  }
  std::filesystem::path log(std::int64_t attempt) const { return attempt_folder(path_, attempt) / "log"; }

  /// Writes config.json unless it is there.
  void write_config(std::string_view json) const;
  std::string read_config() const;

  /// None where there is none yet. InputError where the file is damaged or newer, or contradicts what lies beside it
  /// though it has no seal of its own (require_agreement() of trial_files.h).
  std::optional<TrialResult> load_result() const;
  /// The bytes of result.json; none where there is none yet.
  std::optional<std::string> result_text() const;
  /// True where a result says done or diverged.
  bool finished() const;
  /// Publishes by link: false where another process was first, whose result stays. A failed one gives way to one that
  /// is not.
  bool publish_result(const TrialResult& result) const;

  /// Of a finished trial: takes away the claim of a process that was killed just after it published, and the temporary
  /// files of any that was killed. Nothing where a process still has the claim.
  void tidy() const;

  TrialStatus status() const;

  /// See Claim::acquire; also none where there is a result other than `retried`, which is a result_text(): that one is
  /// moved to the new attempt's folder, as failed.json or diverged.json. Otherwise that folder has but its lease.
  std::optional<Claim> claim(double lease_seconds = kLeaseSeconds,
                             const std::optional<std::string>& retried = {}) const;

  /// The latest attempt whose checkpoint can be read and whose metrics reach as far; none of before a divergence that
  /// is being retried, which would come again. Each one that had to be passed over adds a line to `problems`, for the
  /// log and the user.
  std::optional<ResumePoint> latest_checkpoint(std::vector<std::string>& problems) const;
  /// Gives `attempt` the metrics of the attempt it resumes, up to the checkpoint: none twice, none missing.
  void copy_metrics(const ResumePoint& from, std::int64_t attempt) const;

 private:
  /// Of an attempt up to `last`, damaged or not: one that latest_checkpoint() looks at.
  bool has_checkpoint(std::int64_t last) const;
  std::filesystem::path path_;
  const ExportedTrial* exported_;
};

class ResultStore {
 public:
  /// `out` is created with the first thing that is written.
  /// InputError for a path that is empty: what a shell makes of a variable that is not set.
  explicit ResultStore(std::filesystem::path out);
  /// The trials of a file that `normlab export` wrote, to be read. InputError as read_export().
  static ResultStore exported(const std::filesystem::path& file);
  bool is_exported() const { return exported_ != nullptr; }
  const std::filesystem::path& out() const { return out_; }

  /// InputError for an id that is no plain name. It must not outlive an exported store.
  TrialFolder trial(const std::string& id) const;
  bool finished(const std::string& id) const { return trial(id).finished(); }
  /// Ids of all trials on disk, sorted.
  std::vector<std::string> trial_ids() const;

  /// Names of the notes in OUT/experiments/<folder>/, sorted: what was decided ("STEM/fixed") or looked at
  /// ("STEM/tabled").
  std::vector<std::string> note_names(const std::string& folder) const;
  /// The note of this name there; null where there is none. InputError where it is damaged or newer.
  nlohmann::json note(const std::string& folder, const std::string& name) const;

  /// Replaces OUT/experiments/<stem>/plan.json, and removes the temporary files that killed runs have left beside it.
  void write_plan(const std::string& stem, std::string_view json) const;

 private:
  std::filesystem::path out_;
  std::shared_ptr<const ExportedResults> exported_;
};

}  // namespace normlab
