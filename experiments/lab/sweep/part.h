// The part of an experiment that one run trains.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/sweep/share.h"

namespace normlab {

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
