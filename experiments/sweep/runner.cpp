#include "experiments/sweep/runner.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <map>

#include "experiments/results/store.h"
#include "experiments/sweep/dispatcher.h"
#include "experiments/sweep/plan_file.h"
#include "experiments/sweep/signals.h"
#include "experiments/sweep/worker.h"
#include "experiments/train/batches.h"

namespace normlab {
namespace {

/// Loads every data set that a pending trial needs, and compares it with what finished trials were trained on.
DataSets load_data(const Experiment& experiment, const ResultStore& store, const std::vector<std::size_t>& pending,
                   const RunOptions& options) {
  DataSets data;
  for (const std::size_t t : pending) {
    const DatasetConfig& config = experiment.trials[t].config.dataset;
    const std::string key = data_key(config);
    if (!data.contains(key)) data.emplace(key, load_dataset(config, options.data, available_cores()));
  }
  for (const Trial& trial : experiment.trials) {
    const auto found = data.find(data_key(trial.config.dataset));
    if (found == data.end()) continue;
    const std::optional<TrialResult> result = store.trial(trial.id).load_result();
    if (!result || result->status == TrialEnd::failed) continue;
    const std::string here = data_hash(found->second);
    const auto there = result->provenance.find("data_hash");
    if (there != result->provenance.end() && there->second != here)
      throw InputError(
          fmt::format("{}: trial {} ({}) was trained on other data than is at hand, and one table must not mix them:\n "
                      " result: {}\n"
                      "  here:   {}\nPoint --data at the former data, or use another --out",
                      store.trial(trial.id).path().string(), trial.id.substr(0, 12), trial.label, there->second, here));
  }
  return data;
}

/// Trials that this run trains, and the results among them that it is to replace.
struct Pending {
  std::vector<std::size_t> trials;
  std::map<std::size_t, std::string> retried;
};

Pending pending_trials(const Experiment& experiment, const ResultStore& store, const RunOptions& options,
                       RunSummary& summary) {
  Pending pending;
  for (std::size_t t = 0; t < experiment.trials.size(); ++t) {
    const TrialFolder folder = store.trial(experiment.trials[t].id);
    const std::optional<TrialResult> result = folder.load_result();
    if (!result) {
      pending.trials.push_back(t);
    } else if ((result->status == TrialEnd::failed && options.retry_failed) ||
               (result->status == TrialEnd::diverged && options.retry_diverged)) {
      pending.trials.push_back(t);
      pending.retried[t] = folder.result_text().value_or("");
    } else {
      ++(result->status == TrialEnd::failed ? summary.failed_before : summary.done_before);
    }
  }
  return pending;
}

}  // namespace

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

RunSummary run_experiment(const Experiment& experiment, const RunOptions& options) {
  const ResultStore store(options.out);
  store.write_plan(experiment.stem, plan_json(experiment));
  RunSummary summary;
  summary.trials = experiment.trials.size();
  const auto [pending, retried] = pending_trials(experiment, store, options, summary);
  if (pending.empty()) return summary;
  Backend& cpu = cpu_backend();  // loads OpenBLAS once, for all workers, or says here what is wrong with it
  for (const std::size_t t : pending)
    if (const Precision p = experiment.trials[t].config.train.precision; p != Precision::fp32)
      cpu.with_bf16(bf16_products_of(p));  // and here that the CPU lacks the instructions
  const DataSets data = load_data(experiment, store, pending, options);
  if (!experiment.probes.empty())
    for (const std::size_t t : pending) {
      const TrialConfig& c = experiment.trials[t].config;
      require_within_training(experiment.probes, count_steps(c.train, data.at(data_key(c.dataset)).train.size()).total,
                              "the training of " + experiment.trials[t].label);
    }
  catch_stop_signals();
  const WorkerSettings settings{.experiment = &experiment,
                                .store = &store,
                                .data = &data,
                                .allow_different_bits = options.allow_different_bits,
                                .data_threads = options.data_threads,
                                .lease_seconds = options.lease_seconds,
                                .retried = &retried,
                                .tensorboard = options.tensorboard};
  Dispatcher(settings, options, pending, summary).run();
  return summary;
}

}  // namespace normlab
