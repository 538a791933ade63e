// A run whose process a launcher such as mpirun or srun has started together with others.
#pragma once

#include <memory>
#include <string>

#include "core/ranks/mpi_ranks.h"
#include "experiments/lab/sweep/runner.h"

namespace normlab {

/// The ranks that a launcher started. The destructor ends those of the group that serve.
struct LaunchedRanks {
  std::unique_ptr<Mpi> mpi;
  std::unique_ptr<Group> group{};  // null: each rank trains its own trials
  std::string words{};             // how the ranks are used, in a line

  /// Divides them, and sets the team, workers, threads and quiet of `options`. `per_trial`: 0 for as many ranks as the
  /// launcher started, or for 1 if the experiment has at least that many trials. InputError, the same in all ranks, if
  /// they differ in program, CPU or descriptor, or do not see the same folder of results, or if `options` do not suit
  /// ranks.
  void divide(const Launch& launch, const Experiment& experiment, RunOptions& options, int per_trial);
  ~LaunchedRanks();
  /// Whether this rank only takes part in trials that another one begins: see serve_trials().
  bool serves() const { return group && !group->root(); }
};

}  // namespace normlab
