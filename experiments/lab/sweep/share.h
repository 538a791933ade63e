// A share of a sweep's trials, for processes without a common folder.
#pragma once

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"

namespace normlab {

/// Share `number` of `count`, from 1; 1/1 is everything.
struct Share {
  std::size_t number = 1, count = 1;
  bool whole() const { return count == 1; }
  /// "3/16".
  std::string text() const;
};

/// "3/16"; "auto": Slurm's SLURM_ARRAY_TASK_ID, in an array of SLURM_ARRAY_TASK_COUNT tasks; "auto/16": that, or
/// JOB_COMPLETION_INDEX of a Kubernetes Indexed Job, which does not tell how many there are. `variable` reads the
/// environment and may return null. InputError with what is wrong, also for a part of an array that is submitted again:
/// another number of tasks than N, numbers with gaps or, without N, a first task above 1.
Share read_share(const std::string& text, const std::function<const char*(const char*)>& variable = std::getenv);

/// The ids of the share's trials. By the order of all ids, so sizes differ by at most one trial.
std::vector<std::string> ids_of_share(const Experiment& experiment, const Share& share);

}  // namespace normlab
