#include "experiments/cli/trial_seconds.h"

#include <fmt/core.h>

#include "core/error.h"
#include "experiments/base/text_layout.h"
#include "experiments/sweep/runner.h"

namespace normlab {

std::string long_duration_text(double seconds) {
  for (const auto& [unit, name] :
       {std::pair{365.25 * 86400, "years"}, {86400.0, "days"}, {3600.0, "hours"}, {60.0, "minutes"}})
    if (seconds >= 2 * unit) return fmt::format("{:.{}f} {}", seconds / unit, seconds < 10 * unit ? 1 : 0, name);
  return seconds < 0.5 ? "less than a second" : plural(fmt::format("{:.0f}", seconds), "second");
}

TrialSeconds::TrialSeconds(const Experiment& experiment, const std::vector<std::size_t>& trials,
                           const DescriptorOptions& options, double gflops)
    : options_(options) {
  std::vector<const TrialConfig*> configs;
  for (const std::size_t t : trials) configs.push_back(&experiment.trials[t].config);
  const std::vector<StepTime> measured =
      gflops > 0 ? std::vector<StepTime>() : measured_step_times(configs, available_cores());
  for (std::size_t i = 0; i < trials.size(); ++i)
    times_[trials[i]] = gflops > 0 ? time_by_products(model_cost(configs[i]->model), gflops) : measured[i];
}

SliceSizes TrialSeconds::sizes(const DatasetConfig& dataset) {
  for (const auto& [known, sizes] : sizes_)
    if (known == dataset) return sizes;
  SliceSizes sizes = known_slice_sizes(dataset);
  try {
    sizes = slice_sizes(dataset, options_.data_root(), available_cores());
  } catch (const InputError&) {  // the plan reports them as unknown
  }
  return sizes_.emplace_back(dataset, sizes).second;
}

}  // namespace normlab
