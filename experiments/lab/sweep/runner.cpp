#include "experiments/lab/sweep/runner.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <map>
#include <set>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/data/dataset_place.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/step_count.h"
#include "experiments/lab/sweep/dispatcher.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/sweep/progress_log.h"
#include "experiments/lab/sweep/signals.h"
#include "experiments/lab/sweep/stages.h"
#include "experiments/lab/sweep/start_weights.h"
#include "experiments/lab/sweep/worker.h"
#include "experiments/lab/train/batches.h"
#include "experiments/lab/train/few_shot.h"
#include "experiments/lab/train/provenance.h"
#include "experiments/lab/trials/event_file.h"
#include "experiments/lab/trials/store.h"
#include "experiments/lab/trials/trial_files.h"
#include "experiments/lab/weights/start.h"

namespace normlab {
namespace {

/// `here`: data_hash() of the data here.
void require_hash(const ResultStore& store, const Trial& trial, const TrialResult& result, const std::string& here,
                  const std::string& note) {
  if (const std::string* const there = result.stated("data_hash"); there != nullptr && *there != here)
    throw InputError(fmt::format(
        "{}: trial {} ({}) was trained on data with hash {}, but the data here has hash {}, and a table must not "
        "mix the two. Point --data at the data of the result, or use another --out{}",
        store.trial(trial.id).path().string(), trial.id.substr(0, 12), trial.label, *there, here, note));
}

/// Results of lists of labels that an earlier version may have read otherwise, if nothing is left to train and their
/// data are here. They are not shown under the names of classes that they were not trained on.
void check_lists(const Experiment& experiment, const ResultStore& store, const RunOptions& options) {
  std::map<std::string, std::string> hashes;
  for (const Trial& trial : experiment.trials) {
    const DatasetConfig& config = trial.config.dataset;
    if (config.labels.empty()) continue;
    const std::optional<TrialResult> result = store.trial(trial.id).load_result();
    if (!result || result->status == TrialEnd::failed || result->stated(kLabelsKey) != nullptr) continue;
    const std::string key = data_key(config);
    if (!hashes.contains(key)) {
      try {
        find_dataset_place(config, options.data);
      } catch (const InputError&) {
        continue;  // results can be read without their data
      }
      try {
        hashes[key] = data_hash(load_dataset(config, options.data, available_cores()));
      } catch (const InputError& error) {
        throw InputError(fmt::format("{}: trial {} ({}) was trained on labels that are refused now: {}",
                                     store.trial(trial.id).path().string(), trial.id.substr(0, 12), trial.label,
                                     error.what()));
      }
    }
    require_hash(store, trial, *result, hashes.at(key), note_of_labels(trial.config.dataset));
  }
}

/// The trials that this run trains, and the results it replaces.
struct Pending {
  std::vector<std::size_t> trials;
  std::map<std::size_t, std::string> retried;
  std::size_t waiting = 0;  // for the trial that they start from
};

bool is_retried(const std::optional<TrialResult>& result, const RunOptions& options) {
  return result && ((result->status == TrialEnd::failed && options.retry_failed) ||
                    (result->status == TrialEnd::diverged && options.retry_diverged));
}

/// `tried`: trials that earlier stages of this run handled; the new ones are added.
Pending pending_trials(const Experiment& experiment, const ResultStore& store, const RunOptions& options,
                       std::set<std::string>& tried, RunSummary& summary) {
  Pending pending;
  summary.done_before = summary.failed_before = summary.left_out = 0;
  const std::vector<std::string> mine = ids_of_part(experiment, options.part);
  for (std::size_t t = 0; t < experiment.trials.size(); ++t) {
    const std::string& id = experiment.trials[t].id;
    if (tried.contains(id)) continue;
    const TrialFolder folder = store.trial(id);
    const std::optional<TrialResult> result = folder.load_result();
    const bool retried = is_retried(result, options);
    if (result && !retried) {
      folder.tidy();
      if (result->status != TrialEnd::failed) folder.write_config(full_json(experiment.trials[t].config));
      ++(result->status == TrialEnd::failed ? summary.failed_before : summary.done_before);
      continue;
    }
    if (!std::binary_search(mine.begin(), mine.end(), id)) {
      ++summary.left_out;
      continue;
    }
    if (waits_for_start(experiment.trials[t].config.start, store)) {
      ++pending.waiting;
      continue;
    }
    pending.trials.push_back(t);
    tried.insert(id);
    if (retried) pending.retried[t] = folder.result_text().value_or("");
  }
  return pending;
}

}  // namespace

std::string RunSummary::text() const {
  return fmt::format("{} of {} done ({} before), {} diverged, {} failed, {} refused", all_finished(),
                     plural(trials, "trial"), done_before, diverged, failed, refused);
}

ExitCode RunSummary::exit_code() const {
  if (refused > 0) return ExitCode::bad_input;
  return failed + failed_before > 0 ? ExitCode::trials_failed : ExitCode::done;
}

DeviceNeeds device_needs(const Experiment& experiment, const RunOptions& options) {
  const ResultStore store(options.out, options.first_wins);
  const std::vector<std::string> mine = ids_of_part(experiment, options.part);
  DeviceNeeds needs;
  for (const Trial& trial : experiment.trials) {
    if (!std::binary_search(mine.begin(), mine.end(), trial.id)) continue;
    const std::optional<TrialResult> result = store.trial(trial.id).load_result();
    if (!result || is_retried(result, options)) needs.add(trial.config);
  }
  return needs;
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

/// The data of the pending trials. InputError for whatever would refuse one of them, before any work starts.
static DataSets checked_data(const Experiment& experiment, const ResultStore& store,
                             const std::vector<std::size_t>& pending, const RunOptions& options) {
  DeviceNeeds needs;
  for (const std::size_t t : pending) needs.add(experiment.trials[t].config);
  // The processes of a group have done this with device_needs() for their GPUs, before one of them used its own, after
  // which a forked process could not.
  if (options.team.group->alone() || options.device == DeviceKind::cpu)
    require_device(options.device, needs, options.algorithms, options.gpu);
  for (const std::size_t t : pending)
    require_divisible(options.team, experiment.trials[t].config,
                      options.device == DeviceKind::cpu ? 0 : options.gpu_shards);
  check_start_files(experiment, pending);
  DataSets data;
  for (const std::size_t t : pending) {
    const DatasetConfig& config = experiment.trials[t].config.dataset;
    const std::string key = data_key(config);
    if (!data.contains(key)) data.emplace(key, load_dataset(config, options.data, available_cores()));
    // Once, before any trial begins.
    require_evaluation(config, data.at(key));
    require_classes(experiment.trials[t].config, data.at(key).train);
    require_shots(experiment.trials[t].config, data.at(key).train, "eval.fewshot.shots");
    require_trainable(experiment.trials[t].config, data.at(key).train.size());
  }
  for (const Trial& trial : experiment.trials) {  // finished ones were trained on the same data
    const auto found = data.find(data_key(trial.config.dataset));
    if (found == data.end()) continue;
    const std::optional<TrialResult> result = store.trial(trial.id).load_result();
    if (!result || result->status == TrialEnd::failed) continue;
    require_hash(store, trial, *result, data_hash(found->second), note_of_data(trial.config.dataset, found->second));
  }
  if (!experiment.probes.empty())
    for (const std::size_t t : pending) {
      const TrialConfig& c = experiment.trials[t].config;
      if (experiment.trials[t].purpose == Purpose::start) continue;
      require_within_training(experiment.probes, count_steps(c.train, data.at(data_key(c.dataset)).train.size()).total,
                              "the training of " + experiment.trials[t].label);
    }
  return data;
}

/// The event file of a trial that was finished before this run.
static void write_events(const Experiment& experiment, const ResultStore& store, const Trial& trial,
                         const std::filesystem::path& tensorboard) {
  const TrialFolder folder = store.trial(trial.id);
  const std::optional<TrialResult> result = folder.load_result();
  if (!result || result->status == TrialEnd::failed || !has_curve(folder, *result)) return;
  EventFile(events_folder(experiment, trial, tensorboard), read_result_metrics(folder, *result));
}

/// Trains these trials if they lack a result, except those in `tried`. Returns whether others can begin afterwards.
static bool run_trials(const Experiment& experiment, const ResultStore& store, const RunOptions& options,
                       std::set<std::string>& tried, RunSummary& summary, ProgressLog* log) {
  summary.trials = experiment.trials.size();
  const auto [pending, retried, waiting] = pending_trials(experiment, store, options, tried, summary);
  summary.waiting = waiting;
  if (pending.empty() && tried.empty()) check_lists(experiment, store, options);
  const DataSets data = pending.empty() ? DataSets() : checked_data(experiment, store, pending, options);
  if (!options.tensorboard.empty())
    for (const Trial& trial : experiment.trials)
      if (!tried.contains(trial.id)) write_events(experiment, store, trial, options.tensorboard);
  store.write_plan(experiment.stem, plan_json(experiment));
  if (pending.empty()) return false;
  catch_stop_signals();
  const WorkerSettings settings{
      .experiment = &experiment, .store = &store, .data = &data, .options = &options, .retried = &retried};
  Dispatcher(settings, pending, summary, log).run();
  return waiting > 0;
}

static RunSummary run_stages(const Experiment& descriptor, const RunOptions& options, ProgressLog* log) {
  const ResultStore store(options.out, options.first_wins);
  RunSummary summary;
  std::set<std::string> tried;
  Experiment experiment = next_stage(descriptor, store, Record::yes);
  while (true) {
    const bool others_wait = run_trials(experiment, store, options, tried, summary, log);
    if (!options.part.share.whole()) {
      summary.more_to_come = experiment.more_to_come || summary.waiting > 0;
      return summary;
    }
    const bool ended = summary.stopped || summary.elsewhere > 0 || (options.stop_on_failure && summary.failed > 0) ||
                       (options.max_trials > 0 && summary.begun >= options.max_trials);
    if (others_wait && !ended) continue;
    if (!experiment.more_to_come || ended) return summary;
    Experiment next = next_stage(descriptor, store, Record::yes);
    if (next.trials.size() == experiment.trials.size()) return summary;  // a failed trial holds up the others
    experiment = std::move(next);
  }
}

RunSummary run_experiment(const Experiment& descriptor, const RunOptions& options) {
  // Opened once: the reader of a pipe would end after the first stage.
  std::optional<ProgressLog> log;
  if (!options.json_progress.empty()) log.emplace(options.json_progress);
  RunSummary summary = run_stages(descriptor, options, log ? &*log : nullptr);
  if (summary.workers == 0 && log) {  // nothing was left to train, so no Dispatcher wrote it
    log->begin(descriptor, summary, 0);
    log->end(summary);
  }
  return summary;
}

}  // namespace normlab
