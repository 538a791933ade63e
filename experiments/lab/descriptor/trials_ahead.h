// The trials that follow from results which a sweep does not have yet.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"

namespace normlab {

struct TrialsAhead {
  /// Later stages of "tune", the table's own trials of rows that are being tuned, and what these start from. Values
  /// that are not chosen yet are the first candidates, so the ids are not those of the trials to come.
  std::vector<Trial> certain;
  /// Trials that two-stage seeds may add, one for each row or start, and at most how many like it.
  std::vector<std::pair<Trial, std::size_t>> possible;

  std::size_t most() const {
    std::size_t sum = 0;
    for (const auto& [trial, count] : possible) sum += count;
    return sum;
  }
};

/// Of an experiment as load_experiment() or next_stage() returns it. Both empty if no trial depends on a result.
TrialsAhead trials_ahead(const Experiment& known);

}  // namespace normlab
