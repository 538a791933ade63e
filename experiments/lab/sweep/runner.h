// Trains what is missing from an experiment.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "core/error.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/sweep/part.h"
#include "experiments/lab/train/device.h"
#include "experiments/lab/train/trial.h"
#include "experiments/lab/trials/lease.h"

namespace normlab {

/// threads: 0: shared among workers and processes, so that the last trials use all cores.
struct RunOptions : TrainingOptions {
  RunOptions() { threads = 0; }
  std::filesystem::path out = "results";
  FirstWins first_wins{};  // of `out`
  std::optional<std::filesystem::path> data;
  DeviceKind device = DeviceKind::cpu;
  ProductAlgorithms algorithms{};  // of its products, which affect the bits
  int workers = 0;     // concurrent trials; 0: one per core, or one on a GPU, but no more than there are trials
  int gpu = 0;         // of this process: its number among those that it sees
  bool quiet = false;  // another process of the same launcher tells and shows everything
  double lease_seconds = kLeaseSeconds;  // a trial whose counter stands still for this time is taken over
  bool retry_failed = false;             // train failed trials again, from their last checkpoint
  bool retry_diverged = false;           // train diverged trials again, from the first step
  bool stop_on_failure = false;          // otherwise the other trials continue
  bool no_wait = false;                  // end when only trials of other processes are left
  std::size_t max_trials = 0;            // end after this many trials of this process; 0: no limit
  Part part{};                           // train only these trials; of a share, none that follow from their results
  std::string json_progress;             // file for ProgressLog; "-": standard error; empty: none
  std::filesystem::path tensorboard{};   // event files go to one folder per trial in this one; empty: none
};

struct RunSummary {
  std::size_t trials = 0, done_before = 0, finished = 0, diverged = 0, failed = 0;
  std::size_t refused = 0;        // invalid input; nothing was written for these trials
  std::size_t failed_before = 0;  // not retried: RunOptions::retry_failed
  std::size_t elsewhere = 0;      // left to other processes: RunOptions::no_wait
  std::size_t waiting = 0;        // for the trial that they start from
  std::size_t begun = 0;          // by this process; limited by RunOptions::max_trials
  std::size_t left_out = 0;       // trials of other shares, rows and seeds without a result here
  bool more_to_come = false;      // further trials follow from the results of all shares
  bool stopped = false;           // by a signal
  std::size_t workers = 0;        // maximum over the stages
  std::set<std::string> copies;   // jpeg_copy() of the data of all stages, which has been said
  WorkTimes times{};              // of all workers, up to the end of each one's last trial
  std::size_t all_finished() const { return done_before + finished; }
  std::string text() const;    // "3 of 4 trials done (1 before), 0 diverged, 1 failed, 0 refused"
  ExitCode exit_code() const;  // of a run that was not stopped
};

/// Loads the data, writes the plan to OUT/experiments, and trains every trial that has no result in OUT, then those
/// that follow from these results (next_stage), until there are no more. Waits for trials of other processes, and takes
/// them over if their process is gone. Failed and diverged trials have a result; the options decide whether they are
/// trained again, once per run. Finished results are never modified. InputError if a finished trial was trained on
/// other data than is available (with both hashes). EnvironmentError for faults of the machine.
RunSummary run_experiment(const Experiment& descriptor, const RunOptions& options);

/// What the trials without a result need, which require_device() checks before a group begins.
DeviceNeeds device_needs(const Experiment& experiment, const RunOptions& options);

/// Number of cores available to this process.
int available_cores();

}  // namespace normlab
