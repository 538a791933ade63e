// What one attempt at a trial writes into the trial's folder, from its first line to its result.
#pragma once

#include <optional>
#include <string>

#include "experiments/lab/base/files.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/trials/correctness_file.h"
#include "experiments/lab/trials/event_file.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// Only the first process of a group writes. In others the calls do nothing, or take part in an exchange.
class AttemptFiles {
 public:
  AttemptFiles(const TrialFolder& folder, std::int64_t attempt, bool writes)
      : folder_(folder), attempt_(attempt), writes_(writes) {}
  std::int64_t attempt() const { return attempt_; }

  /// A line with the time.
  void log(const std::string& text);
  /// Begins with the metrics of the attempt that wrote the checkpoint `from`, up to that step.
  void copy_metrics(const ResumePoint& from);
  /// Creates the files that grow during the training. `tensorboard`: folder for an event file; empty: none.
  void open(const std::filesystem::path& tensorboard);
  void write(const std::vector<MetricsLine>& lines);
  void write(const EpochTime& time);
  /// The last line of the metrics; none where nothing is written.
  std::optional<MetricsLine> last_metrics() const;
  void write(const Correctness& right);
  /// Records the state and returns the hash of all tensors. All processes call it.
  std::string record(Engine& engine);
  /// Writes a checkpoint with `info`, and sets what it says about files. All processes call it.
  void save(Engine& engine, CheckpointInfo& info);
  /// Lists the attempt's files in the result and publishes it, after both they and their directory entries are on disk.
  /// False if another process published a result first, which is then kept.
  bool publish(TrialResult result, KeepCheckpoint keep);

 private:
  const TrialFolder& folder_;
  const std::int64_t attempt_;
  const bool writes_;
  std::optional<MetricsLog> metrics_;
  std::optional<LineFile> states_, times_;
  std::optional<EventFile> events_;
};

}  // namespace normlab
