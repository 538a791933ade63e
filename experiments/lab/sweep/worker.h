// Each worker is a separate process, so a trial that crashes or runs out of memory does not affect the others. It
// exchanges small records with its parent over a socket.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/words.h"
#include "experiments/lab/sweep/runner.h"

namespace normlab {

/// To a worker: run this trial with this many threads; trial -1 ends the worker. `workers`: how many may run trials
/// meanwhile, itself included.
struct Assignment {
  std::int64_t trial = -1;
  std::int32_t threads = 1, workers = 1;
};

enum class WorkerEvent : std::int32_t {
  progress,
  done,
  diverged,
  stopped,       // by a signal, with a checkpoint
  busy,          // another process holds the trial
  finished,      // finished by another process
  failed_there,  // failed in another process, with a published result
  refused,       // invalid input, see `text`: a checkpoint of another model, a batch larger than the data set
  failed,        // the reason is in `text` and in the result
  faulted,       // the GPU has stopped, because of this trial or of one beside it
  broken,        // the machine is at fault (disk full, no permission), so other trials would fail too
};
constexpr auto stated_words(WorkerEvent) {
  return words<WorkerEvent>("progress", "done", "diverged", "stopped", "busy", "finished", "failed_there", "refused",
                            "failed", "faulted", "broken");
}

/// A message from a worker.
struct WorkerReport {
  WorkerEvent event = WorkerEvent::progress;
  std::int64_t trial = -1, step = 0, steps = 0;
  double loss = 0.0, images_per_second = 0.0;
  WorkTimes times{};  // of the worker so far, at the end of a trial
  bool last = false;  // the worker ends, since its GPU has stopped
  char text[1024] = {};
};

/// Data sets by their settings. Each is loaded once, before the workers start, and shared by them.
using DataSets = std::map<std::string, DataPair>;
std::string data_key(const DatasetConfig& config);

/// Of a trial's event file, below the folder of --tensorboard.
std::filesystem::path events_folder(const Experiment& experiment, const Trial& trial,
                                    const std::filesystem::path& tensorboard);

struct WorkerSettings {
  const Experiment* experiment = nullptr;
  const ResultStore* store = nullptr;
  const DataSets* data = nullptr;
  const RunOptions* options = nullptr;
  /// Results from before this run that are to be replaced, by trial: see TrialFolder::claim.
  const std::map<std::size_t, std::string>* retried = nullptr;
};

/// OUT/logs/HOST-PID.log: events of a process of a run. It also receives the workers' own output, for
/// example of a crash.
std::filesystem::path worker_log(const ResultStore& store, pid_t pid);
/// Appends a line with the time. Write errors are ignored, so that they stop no training.
void log_line(const std::filesystem::path& log, const std::string& text);

/// Publishes a failed result with the reason, for the table; false if another result exists.
bool publish_failure(const TrialFolder& folder, const Trial& trial, const std::string& message);

/// A worker from inside.
struct TrialWorker {
  int socket;
  WorkClock clock{};
  Backend* of_stack = nullptr;            // of its place in a stack; null: it opens the device
  int stacked = 1;                        // places of that
  std::optional<ComputeDevice> device{};  // opened for its first trial
};
WorkerReport work_on(const WorkerSettings& settings, const Assignment& assignment, TrialWorker& worker);

/// Forks a worker. `socket` is this side's end of the connection. If this process is in a group, starts a thread
/// of it instead, since MPI belongs to the process that started it.
struct WorkerProcess {
  pid_t pid = -1;
  int socket = -1;
  std::thread thread{};
};
WorkerProcess start_worker(const WorkerSettings& settings);
/// Forks a process that is `count` workers, whose trials a GPU trains together (core/trial_stack.h). `shared`: beside
/// others.
std::vector<WorkerProcess> start_stack(const WorkerSettings& settings, std::size_t count, bool shared);

/// In the other processes of a group: takes part in each trial that the first one begins, until it ends them.
void serve_trials(const RunOptions& options, const Experiment& experiment);
/// In the first process: ends them.
void end_serving(Group& group);

/// One complete record. False at the end of the connection.
bool send_assignment(int socket, const Assignment& assignment);
bool receive_report(int socket, WorkerReport& report);

}  // namespace normlab
