// A run whose process a launcher such as mpirun or srun has started together with others.
#pragma once

#include <memory>
#include <string>

#include "core/ranks/mpi_ranks.h"
#include "experiments/lab/sweep/runner.h"

namespace normlab {

class LaunchedRun {
 public:
  /// Sets the group, workers, threads and quiet of `options`. `ranks_per_trial`: 0 for as many as the launcher started,
  /// or for 1 if the experiment has at least that many trials. InputError, the same in all ranks, if they differ in
  /// program, CPU or descriptor, or do not see the same folder of results, or if `options` do not suit ranks.
  LaunchedRun(std::unique_ptr<Mpi> mpi, const Launch& launch, const Experiment& experiment, RunOptions& options,
              int ranks_per_trial);
  /// Ends the other ranks of the group.
  ~LaunchedRun();
  LaunchedRun(const LaunchedRun&) = delete;
  LaunchedRun& operator=(const LaunchedRun&) = delete;

  /// Whether this rank only takes part in trials that another one begins: see serve_trials().
  bool serves() const { return group_ && !group_->root(); }
  /// How the ranks are used, in a line.
  std::string words() const;

 private:
  void require_one_folder(const std::filesystem::path& out);
  int ranks_with_these_cores();
  int rank_on_this_host();  // among those of the launcher

  const Launch launch_;
  const std::unique_ptr<Mpi> mpi_;
  const int size_, trials_;
  int per_trial_;
  bool chosen_;  // by the user
  std::string version_;
  std::unique_ptr<Ranks> group_;  // null: each rank trains its own trials
};

}  // namespace normlab
