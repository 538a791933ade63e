// Runs what an experiment still misses.
#pragma once

#include <optional>

#include "experiments/sweep/worker.h"

namespace normlab {

struct RunOptions {
  std::filesystem::path out = "results";
  std::optional<std::filesystem::path> data;
  int workers = 0;  // trials at a time; 0: one a core, but no more than there are trials
  int threads = 0;  // cores in a trial; 0: what the workers leave, so that the last trials use all cores
  bool allow_different_bits = false;
  std::filesystem::path tensorboard{};  // event files go to a folder a trial below this one; empty: none
  int data_threads = 0;                 // beside them in each trial, that make the next batches; 0: made in the step
};

struct RunSummary {
  std::size_t trials = 0, done_before = 0, finished = 0, diverged = 0, failed = 0;
  std::size_t refused = 0;  // bad input; nothing was written for them
  bool stopped = false;     // by a signal
};

/// Plans the experiment into OUT/experiments, loads its data, and trains every trial that has no result there; trials
/// of other processes on the same folder are waited for. InputError where a finished trial was trained on other data
/// than is at hand (both hashes); EnvironmentError for the machine's faults. Finished results are never touched.
RunSummary run_experiment(const Experiment& experiment, const RunOptions& options);

/// Cores this process may use.
int available_cores();

}  // namespace normlab
