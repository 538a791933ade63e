// The rows of `normlab plan`.
#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// Lines about the cost of a trial; unknown ones are empty.
using TrialCosts = std::array<std::string, 7>;

/// A row's trials of one purpose; within a part all cost the same.
struct PlanPart {
  std::size_t row = 0;
  Purpose purpose = Purpose::table;
  TrialCosts costs;
  std::string time;                 // per remaining trial, on one core; empty if unknown
  std::vector<std::size_t> trials;  // indices into Experiment::trials
  std::size_t ahead = 0;            // instead: trials that follow from results
};

/// Prints equal lines once, with the numbers of their rows.
void print_costs(const std::vector<PlanPart>& parts);

/// The trials of each row by state, and once what all rows share. `status` covers all trials; `added` are those
/// since the last run.
void print_trials(const Experiment& experiment, const std::vector<PlanPart>& parts,
                  const std::vector<TrialStatus>& status, const std::set<std::size_t>& added);

}  // namespace normlab
