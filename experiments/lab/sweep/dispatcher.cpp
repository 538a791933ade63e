#include "experiments/lab/sweep/dispatcher.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/system_calls.h"
#include "experiments/lab/sweep/shared_gpu.h"
#include "experiments/lab/sweep/signals.h"
#include "experiments/lab/train/step_time.h"

namespace normlab {

Dispatcher::Dispatcher(const WorkerSettings& settings, const std::vector<std::size_t>& pending, RunSummary& summary,
                       ProgressLog* log)
    : settings_(settings),
      options_(*settings.options),
      summary_(summary),
      cores_(available_cores()),
      look_seconds_(std::clamp(options_.lease_seconds / 10, 0.1, 2.0)),
      queue_(pending.begin(), pending.end()),
      log_(log),
      log_file_(worker_log(*settings.store, getpid())) {
  const int wanted = options_.workers > 0                 ? options_.workers
                     : options_.device == DeviceKind::cpu ? std::max(1, cores_ / options_.team.forked)
                                                          : 1;
  const auto processes = std::min<std::size_t>(static_cast<std::size_t>(wanted), pending.size());
  const std::size_t most = static_cast<std::size_t>(options_.stack) * processes;
  worker_count_ = std::min(most, pending.size());
  in_process_ = processes > 0 ? (worker_count_ + processes - 1) / processes : 1;
  summary_.workers = std::max(summary_.workers, worker_count_);
  if (options_.json_progress != "-" && !options_.quiet) printer_ = std::make_unique<ProgressPrinter>();
  make_folders(log_file_.parent_path());
  plan_work(pending);
}

void Dispatcher::plan_work(const std::vector<std::size_t>& pending) {
  constexpr double kWorthMeasuring =
      5;  // seconds estimated from matrix products alone; small networks take several times longer
  std::vector<const TrialConfig*> configs;
  std::vector<TrialCost> costs;
  std::vector<StepTime> times;
  double all = 0;
  for (const std::size_t t : pending) {
    const TrialConfig& c = *configs.emplace_back(&trial(t).config);
    const DataPair& data = settings_.data->at(data_key(c.dataset));
    costs.push_back(trial_cost(c, {data.train.size(), data.eval.size(), data.minival ? data.minival->size() : 0}));
    times.push_back(time_by_products(costs.back().model, default_gflops(c.train.precision)));
    all += times.back().seconds(costs.back());
  }
  measured_ = options_.device == DeviceKind::cpu && all > kWorthMeasuring;
  if (measured_) times = measured_step_times(configs, cores_).of;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    Work& work = work_[pending[i]] = {costs[i].images, times[i].seconds(costs[i]), 0};
    try {
      const TrialStatus status = folder(pending[i]).status();
      if (status.state != TrialState::diverged) work.done = status.progress;
    } catch (const InputError&) {  // a damaged claim or metrics; reported by the worker that gets this trial
    }
  }
}

void Dispatcher::run() {
  // Before the workers start, since they read its environment variables.
  std::optional<SharedGpu> shared;
  if (options_.device == DeviceKind::cuda)
    shared.emplace(static_cast<int>((worker_count_ + in_process_ - 1) / in_process_));
  if (shared && !shared->message().empty()) say(shared->message());
  if (log_) log_->begin(*settings_.experiment, summary_, static_cast<int>(worker_count_));
  for (const auto& [t, work] : work_) {
    const DatasetConfig& config = trial(t).config.dataset;
    const std::string copy = jpeg_copy(config.name, settings_.data->at(data_key(config)));
    if (!copy.empty() && summary_.copies.insert(copy).second) say(copy + kNotPublished);
  }
  workers_ = std::vector<Worker>(worker_count_);
  for (std::size_t first = 0; first < worker_count_; first += in_process_) begin(workers_[first]);
  while (true) {
    if (stop_requested() && !stopping_) {
      say("stopping: each trial writes a checkpoint, from which the same command resumes");
      stop_workers();
    }
    check_held();
    if (replacing_) replace_workers();
    assign();
    const bool waits = (!queue_.empty() || !suspects_.empty()) && may_begin();
    if (running() == 0 && (stopping_ || (!waits && (held_.empty() || options_.no_wait || !may_begin())))) break;
    wait_for_reports();
    const SweepProgress now = progress();
    if (printer_) printer_->update(now);
    if (log_) log_->sweep(now);
  }
  std::erase_if(workers_, [](const Worker& w) { return w.process.pid < 0; });
  for (Worker& w : workers_) close_once(std::exchange(w.process.socket, -1));
  for (Worker& w : workers_) end_of(w);
  if (printer_) printer_->clear();
  summary_.stopped = stop_requested();
  if (cpu_limit_reached() && broken_.empty()) broken_ = kCpuLimitWords;
  summary_.elsewhere = held_.size();
  if (log_) log_->end(summary_);
  if (!broken_.empty()) throw EnvironmentError(broken_);
}

void Dispatcher::stop_workers() {
  stopping_ = true;
  end_workers();
}

void Dispatcher::end_workers() {
  for (std::size_t first = 0; first < workers_.size(); first += in_process_)
    if (const WorkerProcess& process = workers_[first].process; process.pid > 0 && !process.thread.joinable())
      kill(process.pid, SIGTERM);
}

bool Dispatcher::may_begin() const { return options_.max_trials == 0 || summary_.begun < options_.max_trials; }

std::size_t Dispatcher::running() const {
  return static_cast<std::size_t>(
      std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.trial >= 0; }));
}

void Dispatcher::assign() {
  for (Worker& w : workers_) {
    const bool others = running() > 0;
    if (stopping_ || replacing_ || !may_begin() || w.trial >= 0) continue;
    if (others &&
        std::any_of(workers_.begin(), workers_.end(), [](const Worker& o) { return o.trial >= 0 && o.alone; }))
      return;
    std::deque<std::size_t>& from = queue_.empty() && !others ? suspects_ : queue_;
    if (from.empty()) continue;
    w.alone = &from == &suspects_ || worker_count_ == 1;
    w.trial = static_cast<std::int64_t>(from.front());
    w.progress = {};
    w.progress.label = trial(from.front()).label;
    from.pop_front();
    ++summary_.begun;
    const std::size_t left = queue_.size() + running();
    const int sharing = static_cast<int>(std::clamp<std::size_t>(left, 1, worker_count_));
    // Of a stack's trials one at a time uses its threads.
    const int at_once = (sharing + static_cast<int>(in_process_) - 1) / static_cast<int>(in_process_);
    const int threads = options_.threads > 0 ? options_.threads : std::max(1, cores_ / at_once / options_.team.forked);
    if (send_assignment(w.process.socket, {w.trial, threads, w.alone ? 1 : static_cast<int>(worker_count_)})) continue;
    // A worker that has ended since its last report has not started the trial.
    from.push_front(static_cast<std::size_t>(std::exchange(w.trial, -1)));
    --summary_.begun;
    worker_died(w);
  }
}

/// Returns trials that other processes no longer work on to the queue.
void Dispatcher::check_held() {
  const Clock::time_point now = Clock::now();
  if (stopping_ || held_.empty() || now - looked_ < std::chrono::duration<double>(look_seconds_)) return;
  looked_ = now;
  for (auto next = held_.begin(); next != held_.end();) {
    const auto held = next++;
    const std::size_t t = held->first;
    try {
      if (!look_at(t)) continue;
    } catch (const InputError& error) {
      end_trial(t, 0, WorkerEvent::refused, error.what());
    }
    watch_.forget(trial(t).id);
    held_.erase(held);
  }
}

bool Dispatcher::look_at(std::size_t t) {
  const TrialFolder place = folder(t);
  const std::optional<Owner> owner = read_claim(place.path());
  if (!owner || is_dead(*owner)) {  // finished or abandoned; a worker finds out which
    queue_.push_back(t);
    return true;
  }
  if (const auto lease = read_lease(attempt_folder(place.path(), owner->attempt))) {
    held_[t] = lease->note;
    if (lease->note.steps > 0) work_[t].done = double(lease->note.step) / double(lease->note.steps);
  }
  // Without a lease (older versions), only the end of the process counts.
  if (owner->lease_seconds == 0 ||
      !watch_.stale(trial(t).id, lease_of(place.path(), *owner), owner->lease_seconds, Clock::now()))
    return false;
  if (place.break_claim(*owner))
    say(fmt::format("{}: taken over from process {} on {}, whose lease has not moved for {:g} s", trial(t).label,
                    owner->pid, owner->host, owner->lease_seconds));
  queue_.push_back(t);
  return true;
}

void Dispatcher::wait_for_reports() {
  constexpr int kLongestWait = 200;  // ms; for resized windows and signals
  std::vector<pollfd> fds;
  for (const Worker& w : workers_) fds.push_back({w.process.socket, POLLIN, 0});
  if (poll(fds.data(), fds.size(), std::min(kLongestWait, int(look_seconds_ * 1000))) <= 0) return;
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (!fds[i].revents) continue;
    WorkerReport report;
    if (!receive_report(workers_[i].process.socket, report)) return worker_died(workers_[i]);  // and all of its process
    take(workers_[i], report);
  }
}

void Dispatcher::take(Worker& w, const WorkerReport& report) {
  const auto t = static_cast<std::size_t>(report.trial);
  if (report.event == WorkerEvent::progress) {
    w.progress.step = report.step, w.progress.steps = report.steps;
    w.progress.loss = report.loss;
    w.progress.images_per_second = report.images_per_second;
    Work& work = work_[t];
    if (report.steps > 0) work.done = double(report.step) / double(report.steps);
    if (report.images_per_second > 0)
      w.progress.seconds_left = work.images * (1 - work.done) / report.images_per_second;
    if (log_) log_->progress(trial(t), w.process.pid, w.progress);
    return;
  }
  w.trial = -1;
  for (std::size_t part = 0; part < report.times.seconds.size(); ++part)
    summary_.times.seconds[part] += report.times.seconds[part] - w.times.seconds[part];
  w.times = report.times;
  if (report.last) gpu_stopped(t, report);
  end_trial(t, w.process.pid, report.event, report.text);
}

void Dispatcher::end_trial(std::size_t t, pid_t worker, WorkerEvent event, const std::string& text) {
  const std::string& label = trial(t).label;
  switch (event) {
    case WorkerEvent::progress:
    case WorkerEvent::done:
      ++summary_.finished;
      break;
    case WorkerEvent::finished:
      ++summary_.finished;
      --summary_.begun;
      break;
    case WorkerEvent::diverged:
      ++summary_.finished, ++summary_.diverged;
      say(fmt::format("{}: diverged", label));
      break;
    case WorkerEvent::stopped:  // only this worker was stopped: another one continues
      queue_.push_back(t);
      --summary_.begun;
      break;
    case WorkerEvent::faulted:
      suspects_.push_back(t);
      --summary_.begun;
      break;
    case WorkerEvent::busy:
      held_.try_emplace(t);
      --summary_.begun;
      break;
    case WorkerEvent::refused:
      ++summary_.refused;
      say(fmt::format("{}: {}", label, text));
      break;
    case WorkerEvent::failed_there:
      --summary_.begun;
      [[fallthrough]];
    case WorkerEvent::failed:
      ++summary_.failed;
      say(fmt::format("{}: failed: {}", label, text));
      if (options_.stop_on_failure && !stopping_) {
        say("stopping after a failure because of --stop-on-failure: each trial writes a checkpoint");
        stop_workers();
      }
      break;
    case WorkerEvent::broken:
      if (broken_.empty()) broken_ = text;
      if (!stopping_) stop_workers();
      break;
  }
  const bool over = event != WorkerEvent::stopped && event != WorkerEvent::busy && event != WorkerEvent::faulted;
  if (over) work_.erase(t);
  if (log_ && event != WorkerEvent::busy) log_->trial_end(trial(t), worker, word_of(event), text);
}

std::span<Dispatcher::Worker> Dispatcher::process_of(const Worker& w) {
  const auto first = static_cast<std::size_t>(&w - workers_.data()) / in_process_ * in_process_;
  return std::span(workers_).subspan(first, std::min(in_process_, workers_.size() - first));
}

void Dispatcher::begin(Worker& w) {
  const std::span<Worker> workers = process_of(w);
  if (options_.stack == 1) {
    w.process = start_worker(settings_);
  } else {
    std::vector<WorkerProcess> started = start_stack(settings_, workers.size(), worker_count_ > in_process_);
    for (std::size_t i = 0; i < workers.size(); ++i) workers[i].process = std::move(started[i]);
  }
  for (Worker& worker : workers) worker.times = {};
  if (!w.process.thread.joinable()) register_worker(w.process.pid);
}

void Dispatcher::say(const std::string& text) {
  log_line(log_file_, text);
  if (printer_) printer_->message(text);
  if (log_) log_->message(text);
}

SweepProgress Dispatcher::progress() const {
  SweepProgress p;
  p.finished = summary_.all_finished();
  p.total = summary_.trials;
  p.elsewhere = held_.size();
  double rate = 0, left = 0, longest = 0;  // estimated seconds per second, estimated seconds, seconds
  for (const Worker& w : workers_) {
    if (w.trial < 0) continue;
    p.workers.push_back(w.progress);
    p.images_per_second += w.progress.images_per_second;
    rate += w.progress.images_per_second * work_.at(static_cast<std::size_t>(w.trial)).per_image();
    longest = std::max(longest, w.progress.seconds_left.value_or(0));
  }
  for (const auto& [t, note] : held_) rate += note.images_per_second * work_.at(t).per_image();
  for (const auto& [t, work] : work_) left += work.left();
  if (rate == 0 && measured_) rate = double(cores_);  // no speed reported yet
  if (rate > 0) p.seconds_left = std::max(longest, left / rate);
  return p;
}

}  // namespace normlab
