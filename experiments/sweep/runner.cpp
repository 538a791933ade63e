#include "experiments/sweep/runner.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>

#include "experiments/results/files.h"
#include "experiments/results/progress.h"
#include "experiments/sweep/plan_file.h"
#include "experiments/sweep/signals.h"
#include "experiments/train/batches.h"

namespace normlab {
namespace {

using Clock = std::chrono::steady_clock;

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

/// The process that hands out trials. Workers do the rest; what they leave behind on disk is the truth.
class Dispatcher {
 public:
  Dispatcher(const Experiment& experiment, const ResultStore& store, const DataSets& data,
             std::vector<std::size_t> pending, const RunOptions& options, RunSummary& summary)
      : experiment_(experiment),
        settings_{&experiment, &store, &data, options.allow_different_bits, options.data_threads, options.tensorboard},
        store_(store),
        options_(options),
        summary_(summary),
        queue_(pending.begin(), pending.end()),
        cores_(available_cores()) {
    const int wanted = options.workers > 0 ? options.workers : cores_;
    worker_count_ = std::min<std::size_t>(static_cast<std::size_t>(wanted), pending.size());
    for (const std::size_t t : pending) {
      const TrialConfig& c = experiment.trials[t].config;
      const StepCount steps = count_steps(c.train, data.at(data_key(c.dataset)).train.size());
      images_left_ += double(steps.total * c.train.batch_size);
    }
  }

  void run() {
    while (workers_.size() < worker_count_) workers_.push_back({start_worker(settings_)});
    while (true) {
      if (stop_requested() && !stopping_) stop_workers();
      assign();
      const bool working = std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.trial >= 0; });
      if (!working && (queue_.empty() || stopping_)) break;
      wait_for_reports();
    }
    for (Worker& w : workers_) close(w.process.socket);
    for (Worker& w : workers_) waitpid(w.process.pid, nullptr, 0);
    printer_.clear();
    summary_.stopped = stop_requested();
    if (!broken_.empty()) throw EnvironmentError(broken_);
  }

 private:
  struct Worker {
    WorkerProcess process;
    std::int64_t trial = -1;  // that it works on
    Report last{};
  };

  void stop_workers() {
    stopping_ = true;
    printer_.message("stopping: each trial writes a checkpoint; the same command goes on from there");
    for (const Worker& w : workers_) kill(w.process.pid, SIGTERM);
  }

  void assign() {
    if (stopping_) return;
    const Clock::time_point now = Clock::now();
    for (Worker& w : workers_) {
      if (w.trial >= 0 || queue_.empty()) continue;
      // A trial that another process has is asked for again after a while.
      if (const auto asked = asked_.find(queue_.front()); asked != asked_.end() && now - asked->second < kAskAgain)
        continue;
      w.trial = static_cast<std::int64_t>(queue_.front());
      queue_.pop_front();
      const std::size_t left = queue_.size() + running();
      const int sharing = static_cast<int>(std::clamp<std::size_t>(left, 1, worker_count_));
      const int threads = options_.threads > 0 ? options_.threads : std::max(1, cores_ / sharing);
      if (!send_assignment(w.process.socket, {w.trial, threads})) worker_died(w);
    }
  }

  std::size_t running() const {
    return static_cast<std::size_t>(
        std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.trial >= 0; }));
  }

  void wait_for_reports() {
    std::vector<pollfd> fds;
    for (const Worker& w : workers_) fds.push_back({w.process.socket, POLLIN, 0});
    if (poll(fds.data(), fds.size(), 500) <= 0) return;  // a signal or nothing new: the loop looks again
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (!fds[i].revents) continue;
      Report report;
      if (receive_report(workers_[i].process.socket, report))
        take(workers_[i], report);
      else
        worker_died(workers_[i]);
    }
  }

  void take(Worker& w, const Report& report) {
    const std::string label = experiment_.trials[static_cast<std::size_t>(report.trial)].label;
    switch (report.event) {
      case WorkerEvent::progress:
        w.last = report;
        images_done_ += double(report.images);
        show(w, label);
        return;
      case WorkerEvent::done:
        ++summary_.finished;
        break;
      case WorkerEvent::diverged:
        ++summary_.finished, ++summary_.diverged;
        printer_.message(fmt::format("{}: diverged", label));
        break;
      case WorkerEvent::finished:
        ++summary_.finished;
        break;
      case WorkerEvent::stopped:  // somebody stopped the worker alone: another one goes on
        if (!stopping_) queue_.push_back(static_cast<std::size_t>(report.trial));
        break;
      case WorkerEvent::busy:
        queue_.push_back(static_cast<std::size_t>(report.trial));
        asked_[static_cast<std::size_t>(report.trial)] = Clock::now();
        break;
      case WorkerEvent::refused:
        ++summary_.refused;
        printer_.message(fmt::format("{}: {}", label, report.text));
        break;
      case WorkerEvent::failed:
        ++summary_.failed;
        printer_.message(fmt::format("{}: failed: {}", label, report.text));
        break;
      case WorkerEvent::broken:
        broken_ = report.text;
        stopping_ = true;
        for (const Worker& other : workers_) kill(other.process.pid, SIGTERM);
        break;
    }
    w.trial = -1;
    if (report.event != WorkerEvent::busy) show(w, label);
  }

  /// A worker that ended without a word: the trial is marked as failed, and another worker takes its place.
  void worker_died(Worker& w) {
    int status = 0;
    waitpid(w.process.pid, &status, 0);
    close(w.process.socket);
    if (w.trial >= 0 && !stopping_) {
      const Trial& trial = experiment_.trials[static_cast<std::size_t>(w.trial)];
      const std::string message =
          WIFSIGNALED(status)
              ? fmt::format("its process was ended by signal {} ({}){}", WTERMSIG(status), strsignal(WTERMSIG(status)),
                            WTERMSIG(status) == SIGKILL ? "; somebody killed it, or memory ran out" : "")
              : fmt::format("its process ended with code {}", WEXITSTATUS(status));
      TrialResult result;
      result.id = trial.id;
      result.seed = trial.config.seed;
      result.status = TrialEnd::failed;
      result.message = message;
      store_.trial(trial.id).publish_result(result);
      ++summary_.failed;
      printer_.message(fmt::format("{}: failed: {}", trial.label, message));
    }
    w.trial = -1;
    if (!stopping_) w.process = start_worker(settings_);
  }

  void show(const Worker& w, const std::string& label) {
    Progress p;
    p.finished = summary_.done_before + summary_.finished;
    p.total = summary_.trials;
    p.label = label;
    p.step = w.last.step, p.steps = w.last.steps;
    p.loss = w.last.loss;
    p.elapsed_seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    p.images_done = images_done_;
    p.images_left = std::max(0.0, images_left_ - images_done_);
    p.images_per_second = p.elapsed_seconds > 0 ? images_done_ / p.elapsed_seconds : 0.0;
    printer_.update(p);
  }

  static constexpr std::chrono::seconds kAskAgain{2};
  const Experiment& experiment_;
  const WorkerSettings settings_;
  const ResultStore& store_;
  const RunOptions& options_;
  RunSummary& summary_;
  std::deque<std::size_t> queue_;
  std::map<std::size_t, Clock::time_point> asked_;
  std::vector<Worker> workers_;
  std::size_t worker_count_ = 1;
  const int cores_;
  double images_done_ = 0.0, images_left_ = 0.0;
  bool stopping_ = false;
  std::string broken_;
  ProgressPrinter printer_;
  const Clock::time_point begin_ = Clock::now();
};

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
  std::vector<std::size_t> pending;
  for (std::size_t t = 0; t < experiment.trials.size(); ++t)
    if (!store.finished(experiment.trials[t].id)) pending.push_back(t);
  summary.done_before = summary.trials - pending.size();
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
  Dispatcher(experiment, store, data, std::move(pending), options, summary).run();
  return summary;
}

}  // namespace normlab
