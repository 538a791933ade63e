// A worker is a process of its own: a trial that crashes, or is killed for its memory, takes no other with it. It talks
// to the process that started it over a socket, one small record at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

#include "experiments/sweep/runner.h"
#include "experiments/train/trial.h"
#include "experiments/train/work_times.h"

namespace normlab {

/// To a worker: run this trial with so many threads; trial -1 ends it.
struct Assignment {
  std::int64_t trial = -1;
  std::int32_t threads = 1;
};

enum class WorkerEvent : std::int32_t {
  progress,
  done,
  diverged,
  stopped,       // by a signal, with a checkpoint
  busy,          // another process has the trial
  finished,      // another process has finished it
  failed_there,  // another process has, and said so in a result
  refused,       // bad input, as `text` says: a checkpoint of another model, a batch larger than the data set
  failed,        // `text` says why; the result says so too
  broken,        // the machine is at fault (disk full, no permission): nothing else would work either
};

/// From a worker.
struct Report {
  WorkerEvent event = WorkerEvent::progress;
  std::int64_t trial = -1, step = 0, steps = 0;
  double loss = 0.0, images_per_second = 0.0;
  WorkTimes times{};  // of the worker so far, at the end of a trial
  char text[1024] = {};
};

/// Data sets by their settings: each is loaded once, before the workers are made, and shared by them.
using DataSets = std::map<std::string, DataPair>;
/// The key of a trial's data in DataSets.
std::string data_key(const DatasetConfig& config);

struct WorkerSettings {
  const Experiment* experiment = nullptr;
  const ResultStore* store = nullptr;
  const DataSets* data = nullptr;
  const RunOptions* options = nullptr;
  /// Results that stood when this run began and are to be trained again, by trial: see TrialFolder::claim.
  const std::map<std::size_t, std::string>* retried = nullptr;
};

/// OUT/logs/HOST-PID.log: what a process of a run did and when; its workers' own words, as of a crash, are in it too.
std::filesystem::path worker_log(const ResultStore& store, pid_t pid);
/// Appends a line with the time. A log that cannot be written stops no training.
void log_line(const std::filesystem::path& log, const std::string& text);

/// Publishes a result that says why the trial failed, for the table; false where another result is there.
bool publish_failure(const TrialFolder& folder, const Trial& trial, const std::string& message);

/// Forks a worker. `socket` is this side's end of the connection.
struct WorkerProcess {
  pid_t pid = -1;
  int socket = -1;
};
WorkerProcess start_worker(const WorkerSettings& settings);

/// One record, whole. False at the end of the connection.
bool send_assignment(int socket, const Assignment& assignment);
bool receive_report(int socket, Report& report);

}  // namespace normlab
