// The part of an experiment that one run trains.
#pragma once

#include <cstdint>
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

struct Part {
  Share share{};
  std::string where{};                 // a condition on rows (condition.h), without columns of results; "": all
  std::vector<std::uint64_t> seeds{};  // of the table's trials; empty: all
  bool some_rows() const { return !where.empty() || !seeds.empty(); }
};

/// The sorted ids of the part's trials: those of its rows and seeds in its share, the trials that tune these rows, and
/// those that they start from. InputError for a condition that names a column of results or matches no row, and for a
/// seed that no such row has.
std::vector<std::string> ids_of_part(const Experiment& experiment, const Part& part);

}  // namespace normlab
