// Hands out the trials of a run to worker processes until none are left, here or in other processes.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/lab/sweep/progress_log.h"
#include "experiments/lab/sweep/worker.h"
#include "experiments/lab/trials/progress.h"

namespace normlab {

/// The workers train; results are read from the files they write.
class Dispatcher {
 public:
  /// `pending`: indices into experiment.trials; settings.data must contain their data. Counts are added to `summary`.
  /// `log` may be null.
  Dispatcher(const WorkerSettings& settings, const std::vector<std::size_t>& pending, RunSummary& summary,
             ProgressLog* log);

  /// EnvironmentError if the machine is at fault (for example a full disk); running trials have then been stopped.
  void run();

 private:
  using Clock = std::chrono::steady_clock;

  struct Worker {
    WorkerProcess process;
    std::int64_t trial = -1;  // the trial it works on; -1: none
    WorkerProgress progress;
    WorkTimes times{};   // up to the end of its last trial
    bool alone = false;  // no other runs beside its trial
  };
  /// The estimated work of a trial, in seconds on one core.
  struct Work {
    double images = 0, seconds = 0, done = 0;  // images to train on; seconds in total; share done, 0 to 1
    double per_image() const { return images > 0 ? seconds / images : 0; }  // includes evaluations
    double left() const { return seconds * (1 - done); }
  };

  void plan_work(const std::vector<std::size_t>& pending);
  void stop_workers();
  void end_workers();
  void replace_workers();
  void gpu_stopped(std::size_t trial, const WorkerReport& report);
  void assign();
  bool may_begin() const;
  std::size_t running() const;
  void check_held();
  bool look_at(std::size_t trial);  // true: no longer held
  void wait_for_reports();
  void take(Worker& worker, const WorkerReport& report);
  void end_trial(std::size_t trial, pid_t worker, WorkerEvent event, const std::string& text);
  void worker_died(Worker& worker);
  /// The workers of a process, of which `worker` is one.
  std::span<Worker> process_of(const Worker& worker);
  /// Starts the process.
  void begin(Worker& worker);
  struct WorkerEnd {
    int status = 0;  // from waitpid()
    bool by_cpu_limit = false;
  };
  WorkerEnd end_of(Worker& worker);
  void trial_of_dead(Worker& worker, pid_t pid, const WorkerEnd& end, bool several);
  WorkerEvent death(std::size_t trial, pid_t worker, const std::string& message, bool at_fault);
  WorkerEvent ended_before_it_began(std::size_t trial, const std::string& message, bool at_fault);
  void say(const std::string& text);
  SweepProgress progress() const;
  const Trial& trial(std::size_t index) const { return settings_.experiment->trials[index]; }
  TrialFolder folder(std::size_t index) const { return settings_.store->trial(trial(index).id); }

  const WorkerSettings& settings_;
  const RunOptions& options_;
  RunSummary& summary_;
  const int cores_;
  const double look_seconds_;  // between checks of trials of other processes
  std::deque<std::size_t> queue_;
  std::deque<std::size_t> suspects_;  // trials beside which the GPU or their process has stopped, to be tried alone
  std::map<std::size_t, LeaseNote> held_;  // trials that other processes hold, with their notes
  std::map<std::size_t, int> unbegun_;     // number of workers that ended after taking a trial and before claiming it
  std::map<std::size_t, Work> work_;       // of unfinished trials
  bool measured_ = false;                  // work_ was measured on this machine
  LeaseWatch watch_;
  Clock::time_point looked_{};
  std::vector<Worker> workers_;
  std::size_t worker_count_ = 1, in_process_ = 1;  // workers of a process; the last one may have fewer
  bool stopping_ = false;
  bool replacing_ = false;  // the workers, after the GPU has stopped
  std::string broken_;
  std::unique_ptr<ProgressPrinter> printer_;  // null if standard error carries ProgressLog
  ProgressLog* const log_;
  const std::filesystem::path log_file_;
};

}  // namespace normlab
