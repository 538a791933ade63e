#include "experiments/lab/sweep/stated_classes.h"

#include <set>

#include "core/error.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

/// A dataset, and the numbers of classes of the trials on it.
using Stated = std::vector<std::pair<DatasetConfig, std::set<std::int64_t>>>;

Stated stated_by(const ResultStore& store, const std::vector<std::string>& ids) {
  Stated stated;
  for (const std::string& id : ids) try {
      const TrialConfig config = read_trial_config(store.trial(id));
      auto known = std::find_if(stated.begin(), stated.end(), [&](const auto& s) { return s.first == config.dataset; });
      if (known == stated.end()) known = stated.insert(stated.end(), {config.dataset, {}});
      known->second.insert(num_classes(config.model));
    } catch (const Error&) {  // not begun, or damaged, which the command reports
    }
  return stated;
}

std::optional<std::int64_t> only_count(const Stated& stated, const DatasetConfig& dataset) {
  for (const auto& [known, counts] : stated)
    if (known == dataset && counts.size() == 1) return *counts.begin();
  return std::nullopt;
}

}  // namespace

ClassCounts stated_classes(const ResultStore& store, const std::string& stem, const ClassCounts& otherwise) {
  // Read when first needed: a descriptor may state the number itself.
  std::optional<Stated> of_plan, of_all;
  return [store, stem, otherwise, of_plan, of_all](const DatasetConfig& dataset) mutable {
    if (!of_plan) {
      std::vector<std::string> ids;
      if (const std::optional<PlanFile> plan = read_plan_file(store, stem))
        for (const PlannedTrial& trial : plan->trials) ids.push_back(trial.id);
      of_plan = stated_by(store, ids);
    }
    if (const auto count = only_count(*of_plan, dataset)) return *count;
    if (!of_all) of_all = stated_by(store, store.trial_ids());
    if (const auto count = only_count(*of_all, dataset)) return *count;
    return otherwise(dataset);
  };
}

}  // namespace normlab
