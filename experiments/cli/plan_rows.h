// How `normlab plan` shows rows: what is the same for many of them stands once.
#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

#include "experiments/descriptor/experiment.h"
#include "experiments/results/store.h"

namespace normlab {

/// What a trial costs, in lines; those that nobody knows are empty.
using TrialCosts = std::array<std::string, 5>;

/// A row's trials, or those that tune it: they cost the same.
struct PlanPart {
  std::size_t row = 0;
  bool tunes = false;
  TrialCosts costs;
  std::string time;                 // of a trial that is left, on one core; empty where that is not known
  std::vector<std::size_t> trials;  // of Experiment::trials
};

/// Rows cost the same in most things: each line is printed once, with the numbers of the rows that it holds for.
void print_costs(const std::vector<PlanPart>& parts);

/// The trials of each row by state; what holds for all of them is said once. `status` of all trials, `added` since the
/// last run.
void print_trials(const Experiment& experiment, const std::vector<PlanPart>& parts,
                  const std::vector<TrialStatus>& status, const std::set<std::size_t>& added);

}  // namespace normlab
