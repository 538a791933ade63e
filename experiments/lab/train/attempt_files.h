// What one attempt at a trial writes into the trial's folder, from its first line to its result.
#pragma once

#include <optional>
#include <string>

#include "core/ranks/ranks.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/trials/correctness_file.h"
#include "experiments/lab/trials/event_file.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// Only rank 0 of a trial writes. In other ranks the calls do nothing, or take part in an exchange between the ranks.
class AttemptFiles {
 public:
  AttemptFiles(const TrialFolder& folder, std::int64_t attempt, Ranks& ranks);
  std::int64_t attempt() const { return attempt_; }

  /// A line with the time.
  void log(const std::string& text);
  /// Begins with the metrics of the attempt that wrote the checkpoint `from`, up to that step.
  void copy_metrics(const ResumePoint& from);
  /// Creates the files that grow during the training. `tensorboard`: folder for an event file; empty: none.
  void open(const std::filesystem::path& tensorboard);
  void write(const MetricsLine& line);
  void write(const EpochTime& time);
  /// The last line of the metrics; none in other ranks.
  std::optional<MetricsLine> last_metrics() const;
  void write(const Correctness& right);
  /// Records the state and returns the hash of all tensors. All ranks call it.
  std::string record(Engine& engine);
  /// Writes a checkpoint with `info`, and sets what it says about files. All ranks call it.
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
