// Hands out the trials of a run to worker processes until none is left, here or with other processes.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/results/progress.h"
#include "experiments/sweep/progress_log.h"
#include "experiments/sweep/worker.h"

namespace normlab {

/// Workers do the training; what they leave behind on disk is the truth.
class Dispatcher {
 public:
  /// `pending`: indices into experiment.trials; settings.data has their data. Counts go into `summary`.
  Dispatcher(const WorkerSettings& settings, const std::vector<std::size_t>& pending, RunSummary& summary);

  /// EnvironmentError where the machine is at fault (a full disk): the trials that ran then have stopped.
  void run();

 private:
  using Clock = std::chrono::steady_clock;

  struct Worker {
    WorkerProcess process;
    std::int64_t trial = -1;  // that it works on
    WorkerProgress progress;
    WorkTimes times{};  // at the end of its last trial
  };
  /// How much a trial asks for, in seconds of one core as they were estimated.
  struct Work {
    double images = 0, seconds = 0, done = 0;  // trained on; of all of it; done: a share, 0 to 1
    double per_image() const { return images > 0 ? seconds / images : 0; }  // evaluations included
    double left() const { return seconds * (1 - done); }
  };

  void plan_work(const std::vector<std::size_t>& pending);
  void stop_workers();
  void assign();
  bool may_begin() const;
  std::size_t running() const;
  void check_held();
  bool look_at(std::size_t trial);  // true: it is held no longer
  void wait_for_reports();
  void take(Worker& worker, const Report& report);
  void take_progress(Worker& worker, const Report& report);
  void end_trial(std::size_t trial, pid_t worker, WorkerEvent event, const std::string& text);
  void worker_died(Worker& worker);
  void replace(Worker& worker);
  struct WorkerEnd {
    int status = 0;  // as waitpid() gives it
    bool by_cpu_limit = false;
  };
  WorkerEnd end_of(Worker& worker);
  WorkerEvent death(std::size_t trial, pid_t worker, const std::string& message, bool at_fault);
  WorkerEvent ended_before_it_began(std::size_t trial, const std::string& message, bool at_fault);
  void say(const std::string& text);
  void show();
  SweepProgress progress() const;
  const Trial& trial(std::size_t index) const { return settings_.experiment->trials[index]; }
  TrialFolder folder(std::size_t index) const { return settings_.store->trial(trial(index).id); }

  const WorkerSettings& settings_;
  const RunOptions& options_;
  RunSummary& summary_;
  const int cores_;
  const double look_seconds_;  // between looks at trials of other processes
  std::deque<std::size_t> queue_;
  std::map<std::size_t, LeaseNote> held_;  // trials that other processes have, and what these say
  std::map<std::size_t, int> unbegun_;     // how many workers ended between taking a trial and claiming it
  std::map<std::size_t, Work> work_;       // of trials that are not over
  bool measured_ = false;                  // their times are, on this machine
  LeaseWatch watch_;
  Clock::time_point looked_{};
  std::vector<Worker> workers_;
  std::size_t worker_count_ = 1;
  bool stopping_ = false;
  std::string broken_;
  std::unique_ptr<ProgressPrinter> printer_;  // none where standard error is for programs
  std::unique_ptr<ProgressLog> log_;
  const std::filesystem::path log_file_;
};

}  // namespace normlab
