#include "experiments/lab/sweep/worker.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "core/backend.h"
#include "core/device_fault.h"
#include "core/memory_error.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/fields.h"
#include "experiments/lab/sweep/signals.h"
#include "experiments/lab/sweep/start_weights.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

/// What the first process of a group tells the others of a trial, after its folder.
struct TrialBegin {
  bool opens = false;   // it is the first on the worker's device
  bool probes = false;  // measures the descriptor's
};

/// An amount per second, averaged over about the last ten seconds.
class Rate {
 public:
  double add(double amount) {
    constexpr double kSeconds = 10;
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::max(1e-6, std::chrono::duration<double>(now - last_).count());
    const double keep = std::exp(-seconds / kSeconds);
    last_ = now;
    mean_ = keep * mean_ + (1 - keep) * amount / seconds;
    weight_ = keep * weight_ + (1 - keep);
    return mean_ / weight_;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  double mean_ = 0, weight_ = 0;
};

struct TrialWork {
  const WorkerSettings& settings_;
  const Assignment& assignment_;
  TrialWorker& worker_;
  const Trial& trial_ = settings_.experiment->trials[static_cast<std::size_t>(assignment_.trial)];
  const TrialFolder folder_ = settings_.store->trial(trial_.id);

  WorkerReport run() {
    try {
      if (const auto former = retried(); !former)
        if (const auto result = folder_.load_result()) return answer_of(*result);
      make_folders(folder_.path());
      folder_.write_config(full_json(trial_.config));
      const std::optional<Claim> claim = folder_.claim(settings_.options->lease_seconds, retried());
      if (!claim) {
        if (retried()) return answer(WorkerEvent::busy);  // its new owner has not yet removed the former result
        const auto result = folder_.load_result();
        return result ? answer_of(*result) : answer(WorkerEvent::busy);
      }
      return run(*claim);
    } catch (const InputError& error) {
      return answer(WorkerEvent::refused, error.what());
    } catch (const std::exception& error) {
      return answer(WorkerEvent::broken, error.what());
    }
  }

 private:
  WorkerReport run(const Claim& claim) {
    const auto log = [&](const std::string& text) {
      log_line(worker_log(*settings_.store, getpid()),
               fmt::format("{} {} attempt {}: {}", trial_.id.substr(0, 12), trial_.label, claim.attempt(), text));
    };
    log(fmt::format("begins with {} threads{}", assignment_.threads,
                    claim.taken_over() ? ", taken over from a process that has ended" : ""));
    WorkerReport report;
    bool last = false;
    try {
      report = train(claim);
    } catch (const MemoryError& error) {
      report = answer(WorkerEvent::failed, error.what());
    } catch (const DeviceFault& error) {
      // One worker alone whose GPU does not even open has none. The processes of a group end together.
      last = settings_.options->team.group->alone() && (worker_.device || assignment_.workers > 1);
      report = answer(!last                     ? WorkerEvent::broken
                      : assignment_.workers > 1 ? WorkerEvent::faulted
                                                : WorkerEvent::failed,
                      error.what());
    } catch (const EnvironmentError& error) {  // a full disk is not the trial's fault
      report = answer(WorkerEvent::broken, error.what());
    } catch (const InputError& error) {
      report = answer(WorkerEvent::refused, error.what());
    } catch (const std::system_error& error) {  // includes std::filesystem errors
      report = answer(WorkerEvent::broken, error.what());
    } catch (const std::bad_alloc&) {  // a small allocation; MemoryError covers what a trial itself needs
      report = answer(WorkerEvent::broken, "out of memory; use fewer --workers or a smaller batch");
    } catch (const std::exception& error) {
      report = answer(WorkerEvent::failed, error.what());
    }
    const bool trouble = report.event == WorkerEvent::broken || report.event == WorkerEvent::refused ||
                         report.event == WorkerEvent::failed || report.event == WorkerEvent::faulted;
    // The process that took the trial over may have removed this attempt's files, or a user the trial's folder, which
    // is not the disk's fault.
    if (trouble && claim.lost_now()) report = answer(WorkerEvent::busy);
    report.last = last;
    if (report.event == WorkerEvent::failed) publish_failure(folder_, trial_, report.text);
    log(fmt::format("ends: {}{}{}", word_of(report.event), report.text[0] != 0 ? ": " : "", report.text));
    return report;
  }

  WorkerReport train(const Claim& claim) {
    const bool opens = !worker_.device;
    if (opens && worker_.of_stack != nullptr)
      worker_.device.emplace(*worker_.of_stack, settings_.options->algorithms);
    else if (opens)
      worker_.device.emplace(settings_.options->device, settings_.options->algorithms, settings_.options->gpu,
                             assignment_.workers > 1);
    TrialOptions options{*settings_.options};
    options.backend = &worker_.device->backend();
    options.stack = worker_.stacked;
    // The thread of all trials of a stack prepares no batches.
    if (worker_.of_stack != nullptr) options.data_threads = std::max(options.data_threads, 1);
    options.threads = assignment_.threads;
    options.checkpoint = settings_.experiment->checkpoint;
    if (trial_.purpose == Purpose::start) {
      if (options.checkpoint.keep == KeepCheckpoint::none) options.checkpoint.keep = KeepCheckpoint::weights;
    } else {
      options.probes = settings_.experiment->probes;
    }
    options.start = [this] { return start_weights(trial_.config.start, *settings_.store); };
    if (!settings_.options->tensorboard.empty())
      options.tensorboard = events_folder(*settings_.experiment, trial_, settings_.options->tensorboard);
    options.stop = &stop_flag();
    options.clock = &worker_.clock;
    Rate speed, data_share;
    double data_seconds = worker_.clock.times()[WorkPart::data];
    options.report = [&](const TrialProgress& p) {
      WorkerReport report = answer(WorkerEvent::progress);
      report.step = p.step, report.steps = p.steps, report.loss = p.loss;
      report.images_per_second = speed.add(double(p.images));
      LeaseNote note{.step = p.step, .steps = p.steps, .images_per_second = report.images_per_second, .loss = p.loss};
      const double data_before = std::exchange(data_seconds, worker_.clock.times()[WorkPart::data]);
      if (!worker_.device->backend().whole_batch()) note.data_share = data_share.add(data_seconds - data_before);
      note.data_threads = options.data_threads;
      claim.note(note);
      // Dropped if the parent does not read, for example while it is paused; the training continues.
      send(worker_.socket, &report, sizeof report, MSG_NOSIGNAL | MSG_DONTWAIT);
    };
    const DataPair& data = settings_.data->at(data_key(trial_.config.dataset));
    if (Group& group = *options.team.group; !group.alone()) {  // to serve_trials()
      group.shared_text(folder_.path().string());
      group.shared(TrialBegin{opens, !options.probes.empty()});
      group.agree([] {});
    }
    switch (run_trial(trial_.config, trial_.id, data, folder_, &claim, options)) {
      case TrialOutcome::done:
        return answer(WorkerEvent::done);
      case TrialOutcome::diverged:
        return answer(WorkerEvent::diverged);
      case TrialOutcome::stopped:
        return cpu_limit_reached() ? answer(WorkerEvent::broken, kCpuLimitWords) : answer(WorkerEvent::stopped);
      case TrialOutcome::lost:
        break;
    }
    return answer(WorkerEvent::busy);
  }

  /// The result from before this run that is to be replaced, if it is still there.
  std::optional<std::string> retried() const {
    if (settings_.retried == nullptr) return std::nullopt;
    const auto found = settings_.retried->find(static_cast<std::size_t>(assignment_.trial));
    if (found == settings_.retried->end() || folder_.result_text() != found->second) return std::nullopt;
    return found->second;
  }

  WorkerReport answer(WorkerEvent event, const std::string& text = {}) const {
    WorkerReport report;
    report.event = event;
    report.trial = assignment_.trial;
    std::snprintf(report.text, sizeof report.text, "%s", text.c_str());
    return report;
  }

  WorkerReport answer_of(const TrialResult& result) const {
    if (result.status == TrialEnd::failed) return answer(WorkerEvent::failed_there, result.message.value_or(""));
    return answer(WorkerEvent::finished);
  }
};

}  // namespace

WorkerReport work_on(const WorkerSettings& settings, const Assignment& assignment, TrialWorker& worker) {
  return TrialWork{settings, assignment, worker}.run();
}

std::string data_key(const DatasetConfig& config) {
  std::string key;
  for_each_field<DatasetConfig>([&](const auto& field) {
    const auto& value = config.*field.member;
    if constexpr (std::is_enum_v<std::decay_t<decltype(value)>>)
      key += fmt::format("{}={}|", field.key, int(value));
    else if constexpr (requires { value.has_value(); })
      key += fmt::format("{}={}|", field.key, value ? std::to_string(*value) : "");
    else
      key += fmt::format("{}={}|", field.key, value);
  });
  return key;
}

std::filesystem::path events_folder(const Experiment& experiment, const Trial& trial,
                                    const std::filesystem::path& tensorboard) {
  std::string name = trial.label;  // without characters that have a meaning in paths
  std::replace(name.begin(), name.end(), '/', '_');
  return tensorboard / experiment.stem / (name.front() == '.' ? "_" + name : name);
}

void serve_trials(const RunOptions& options, const Experiment& experiment) {
  Group& group = *options.team.group;
  catch_stop_signals();  // which reach all processes; the first one decides
  const ResultStore store(options.out, options.first_wins);
  std::optional<ComputeDevice> device;
  DataSets data;
  for (std::string path; !(path = group.shared_text("")).empty();) {
    TrialOptions trial_options{options};
    const TrialBegin begin = group.shared(TrialBegin{});
    if (begin.opens) device.reset();  // all connect new ones, since the first one has a worker for each stage
    if (begin.probes) trial_options.probes = experiment.probes;
    const TrialFolder folder{path};
    std::optional<TrialConfig> config;
    const DataPair* pair = nullptr;
    try {
      group.agree([&] {
        if (!device) device.emplace(options.device, options.algorithms, options.gpu);
        trial_options.backend = &device->backend();
        config = read_trial_config(folder);
        const std::string key = data_key(config->dataset);
        if (!data.contains(key)) data.emplace(key, load_dataset(config->dataset, options.data, options.threads));
        pair = &data.at(key);
      });
      trial_options.start = [&] { return start_weights(config->start, store); };
      run_trial(*config, folder.path().filename().string(), *pair, folder, nullptr, trial_options);
    } catch (const Error&) {  // all have it, and the first one reports it
    }
  }
}

void end_serving(Group& group) { group.shared_text(""); }

std::filesystem::path worker_log(const ResultStore& store, pid_t pid) {
  return store.out() / "logs" / fmt::format("{}-{}.log", host_name(), pid);
}

void log_line(const std::filesystem::path& log, const std::string& text) {
  try {
    LineFile(log).append(utc_time() + " " + text);
  } catch (const EnvironmentError&) {
  }
}

bool publish_failure(const TrialFolder& folder, const Trial& trial, const std::string& message) {
  TrialResult result;
  result.id = trial.id;
  result.seed = trial.config.seed;
  result.status = TrialEnd::failed;
  result.message = message;
  return folder.publish_result(result);
}

}  // namespace normlab
