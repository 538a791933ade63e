// Runs what an experiment still misses.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "experiments/descriptor/experiment.h"
#include "experiments/results/lease.h"
#include "experiments/train/device.h"
#include "experiments/train/work_times.h"

namespace normlab {

struct RunOptions {
  std::filesystem::path out = "results";
  std::optional<std::filesystem::path> data;
  DeviceKind device = DeviceKind::cpu;
  int workers = 0;  // trials at a time; 0: one a core, one on a GPU, but no more than there are trials
  int threads = 0;  // cores in a trial; 0: what the workers leave, so that the last trials use all cores
  bool allow_different_bits = false;
  int data_threads = 0;                  // beside them in each trial, that make the next batches; 0: made in the step
  double lease_seconds = kLeaseSeconds;  // others take a trial over whose counter has not moved for so long
  bool retry_failed = false;             // train them again, from their last checkpoint
  bool retry_diverged = false;           // train them again from the first step, since they would diverge again
  bool stop_on_failure = false;          // otherwise the other trials go on
  bool no_wait = false;                  // end where only trials of other processes are left
  std::size_t max_trials = 0;            // end after so many of this process's own; 0: no limit
  std::string json_progress;             // file for ProgressLog; "-" for standard error; empty for none
  std::filesystem::path tensorboard{};   // event files go to a folder a trial below this one; empty: none
};

struct RunSummary {
  std::size_t trials = 0, done_before = 0, finished = 0, diverged = 0, failed = 0;
  std::size_t refused = 0;        // bad input; nothing was written for them
  std::size_t failed_before = 0;  // left alone: RunOptions::retry_failed
  std::size_t elsewhere = 0;      // left to other processes: RunOptions::no_wait
  std::size_t begun = 0;          // by this process, what RunOptions::max_trials counts
  bool stopped = false;           // by a signal
  std::size_t workers = 0;        // the most of any stage
  WorkTimes times{};              // of all workers, to the end of each one's last trial
  std::size_t all_finished() const { return done_before + finished; }
};

/// Plans the experiment into OUT/experiments, loads its data, and trains every trial that has no result there, then
/// those that these results bring up (next_stage), until no more come; trials of other processes on the same folder are
/// waited for, and taken over where their process is gone. Trials that failed or diverged have a result, and are
/// trained again only where the options say so, once by each run. InputError where a finished trial was trained on
/// other data than is at hand (both hashes); EnvironmentError for the machine's faults. Finished results are never
/// touched.
RunSummary run_experiment(const Experiment& descriptor, const RunOptions& options);

/// Cores this process may use.
int available_cores();

}  // namespace normlab
