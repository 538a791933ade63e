#include "experiments/lab/sweep/trial_seconds.h"

#include <fmt/core.h>

#include <algorithm>

#include "experiments/lab/base/machine_load.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/sweep/runner.h"

namespace normlab {

std::string long_duration_text(double seconds) {
  for (const auto& [unit, name] :
       {std::pair{365.25 * 86400, "years"}, {86400.0, "days"}, {3600.0, "hours"}, {60.0, "minutes"}})
    if (seconds >= 2 * unit) return fmt::format("{:.{}f} {}", seconds / unit, seconds < 10 * unit ? 1 : 0, name);
  return seconds < 0.5 ? "less than a second" : plural(fmt::format("{:.0f}", seconds), "second");
}

std::string trials_words(const Experiment& experiment, const TrialsAhead& ahead) {
  std::size_t tuning = 0, starts = 0;
  for (const std::vector<Trial>* trials : {&experiment.trials, &ahead.certain})
    for (const Trial& trial : *trials) {
      tuning += trial.purpose == Purpose::tuning;
      starts += trial.purpose == Purpose::start;
    }
  const std::size_t all = experiment.trials.size() + ahead.certain.size();
  std::string words = ahead.most() > 0 ? fmt::format("{} to {} trials", all, all + ahead.most()) : plural(all, "trial");
  if (tuning > 0) words += fmt::format(", {} of them to tune", tuning);
  if (starts > 0) words += fmt::format(", {} of them to start from", starts);
  return words;
}

std::string slow_bf16_words(double times_fp32) {
  if (times_fp32 <= 1.05) return "";
  return fmt::format(
      "On this CPU a step in \"bf16\" takes {:.1f} times as long as in \"fp32\"; set train.precision to \"fp32\" for "
      "speed.",
      times_fp32);
}

TrialSeconds::TrialSeconds(const Experiment& experiment, const std::vector<std::size_t>& trials,
                           std::optional<std::filesystem::path> data, double gflops)
    : data_(std::move(data)) {
  for (const Trial& trial : experiment.trials) require_fitting(trial.config, slices(trial.config.dataset));
  const auto macs = [](const TrialConfig* config) { return model_cost(config->model).macs_with_norms(); };
  const TrialConfig* largest = nullptr;  // of those in bf16
  std::vector<const TrialConfig*> configs;
  for (const std::size_t t : trials) {
    const TrialConfig& config = *configs.emplace_back(&experiment.trials[t].config);
    if (config.train.precision == Precision::bf16 && (largest == nullptr || macs(&config) > macs(largest)))
      largest = &config;
  }
  TrialConfig in_fp32;
  if (largest != nullptr) {  // these two come first, so that there is time for both
    in_fp32 = *largest;
    in_fp32.train.precision = Precision::fp32;
    configs.insert(configs.begin(), {largest, &in_fp32});
  }
  StepTimes measured = gflops > 0 ? StepTimes() : measured_step_times(configs, available_cores());
  disturbance_ = measured.disturbance;
  if (largest != nullptr && gflops <= 0) {
    if (measured.measured[0] && measured.measured[1])
      bf16_times_fp32_ = measured.of[0].training / measured.of[1].training;
    measured.of.erase(measured.of.begin(), measured.of.begin() + 2);
    measured.measured.erase(measured.measured.begin(), measured.measured.begin() + 2);
  }
  for (const bool of_this : measured.measured) (of_this ? some_measured_ : all_measured_) = of_this;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const TrialConfig& config = experiment.trials[trials[i]].config;
    StepTime& time = times_[trials[i]];
    time = gflops > 0 ? time_by_products(model_cost(config.model), gflops) : measured.of[i];
    add_decoding(config, time, gflops == 0);
  }
}

std::string TrialSeconds::origin() const {
  return all_measured_    ? "from measured steps of each network"
         : some_measured_ ? "from measured steps of some of its networks"
                          : "from matrix products alone, as no step could be measured";
}

void TrialSeconds::add_decoding(const TrialConfig& config, StepTime& time, bool measure) {
  const FoundSlices& found = slices(config.dataset);
  if (found.in_memory) return;
  std::optional<MakingTime> making;
  if (found.files && measure) {
    const MakingKey key{config.dataset, config.train.augment, config.train.eval_transform, image_size(config.model)};
    const auto same = [&](const auto& known) { return known.first == key; };
    auto known = std::find_if(making_.begin(), making_.end(), same);
    if (known == making_.end()) {
      const LoadMeter meter;
      known = making_.insert(known, {key, measured_making(config, *found.files)});
      if (known->second && known->second->training > 0 && disturbance_.empty())
        disturbance_ = other_load(meter.settled_load(), 1);
    }
    making = known->second;
  }
  if (!making) decoding_counted_ = false;
  if (making && making->training > 0) time = making->in(time);
}

const FoundSlices& TrialSeconds::slices(const DatasetConfig& dataset) {
  for (const auto& [known, found] : slices_)
    if (known == dataset) return found;
  return slices_.emplace_back(dataset, find_slices(dataset, data_, available_cores())).second;
}

}  // namespace normlab
