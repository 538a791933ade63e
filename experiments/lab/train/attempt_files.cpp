#include "experiments/lab/train/attempt_files.h"

#include <cerrno>

#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/train/keep.h"
#include "experiments/lab/trials/trial_files.h"
#include "nn/training/engine.h"

namespace normlab {

void AttemptFiles::log(const std::string& text) {
  if (writes_) LineFile(folder_.log(attempt_)).append(utc_time() + " " + text);
}

void AttemptFiles::copy_metrics(const ResumePoint& from) {
  if (writes_) folder_.copy_metrics(from, attempt_);
}

void AttemptFiles::open(const std::filesystem::path& tensorboard) {
  if (!writes_) return;
  metrics_.emplace(folder_.metrics(attempt_));
  states_.emplace(attempt_folder(folder_.path(), attempt_) / kStatesFile);
  times_.emplace(attempt_folder(folder_.path(), attempt_) / kTimesFile);
  if (!tensorboard.empty()) events_.emplace(tensorboard, read_metrics(folder_.metrics(attempt_)));
}

void AttemptFiles::write(const std::vector<MetricsLine>& lines) {
  for (const MetricsLine& line : lines) {
    if (metrics_) metrics_->append(line);
    if (events_) events_->append(line);
  }
}

std::optional<MetricsLine> AttemptFiles::last_metrics() const {
  return writes_ ? last_metrics_line(folder_.metrics(attempt_)) : std::nullopt;
}

void AttemptFiles::write(const EpochTime& time) {
  if (times_) times_->append(times_text(time));
}

void AttemptFiles::write(const Correctness& right) {
  if (writes_) write_correctness(attempt_folder(folder_.path(), attempt_) / kCorrectnessFile, right);
}

std::string AttemptFiles::record(Engine& engine) {
  engine.optimizer().gather_moments();
  if (!writes_) return "";
  const StateRecord record = record_state(engine);
  states_->append(write_state_record(record));
  return record.state;
}

void AttemptFiles::save(Engine& engine, CheckpointInfo& info) {
  info.state_hash = record(engine);
  if (!writes_) return;
  metrics_->sync();
  states_->sync();
  info.metrics_bytes = metrics_->bytes();
  info.metrics_hash = sha256_hex(read_file(folder_.metrics(attempt_)));
  save_checkpoint(folder_.checkpoint(attempt_), engine, info);
}

bool AttemptFiles::publish(TrialResult result, KeepCheckpoint keep) {
  if (!writes_) return true;
  write_kept_weights(folder_, keep, attempt_);
  metrics_->sync();
  states_->sync();
  sync_folder(attempt_folder(folder_.path(), attempt_));
  result.files = seal_attempt(folder_, attempt_, keep == KeepCheckpoint::last);
  if (const auto metrics = folder_.metrics(attempt_); !result.files.contains(metrics.filename()))
    throw_system_error("seal", metrics, ENOENT);  // a user has just deleted the folder
  if (!folder_.publish_result(result)) {
    log("another process published a result first; that result is kept");
    return false;
  }
  remove_superfluous_as_owner(folder_, keep);
  return true;
}

}  // namespace normlab
