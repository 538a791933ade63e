// Workers that end without a report, and GPUs that stop.
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/system_calls.h"
#include "experiments/lab/sweep/dispatcher.h"
#include "experiments/lab/sweep/signals.h"

namespace normlab {
namespace {

/// Whether the CPU time limit ended the process: by its signal, or at the hard limit by SIGKILL. The system counts
/// whole ticks against the limit; on a busy machine these add up to far more than the time it reports.
bool ended_by_cpu_limit(int status, const rusage& used) {
  if (!WIFSIGNALED(status)) return false;
  if (WTERMSIG(status) == SIGXCPU) return true;
  rlimit limit{};
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return WTERMSIG(status) == SIGKILL && getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_max != RLIM_INFINITY &&
         2 * (seconds(used.ru_utime) + seconds(used.ru_stime)) >= double(limit.rlim_max);
}

std::string words_of(int status) {
  if (!WIFSIGNALED(status))
    return fmt::format("its process ended with code {}{}", WEXITSTATUS(status),
                       WEXITSTATUS(status) == int(ExitCode::environment) ? ": it was out of memory" : "");
  const int number = WTERMSIG(status);
  return fmt::format("its process was ended by signal {} ({}){}", number, strsignal(number),
                     number == SIGKILL ? "; it was killed, or memory ran out" : "");
}

}  // namespace

/// All workers end: the multi-process service has stopped them all, and serves no new one before the last is gone.
/// Without the service the others write a checkpoint.
void Dispatcher::gpu_stopped(std::size_t t, const WorkerReport& report) {
  if (report.event == WorkerEvent::faulted && !replacing_)
    say(
        fmt::format("{}: {}; any trial that ran beside it may be the cause, so those that met this error are tried "
                    "alone after the others, from their last checkpoints",
                    trial(t).label, report.text));
  replacing_ = true;
  end_workers();
}

/// Starts new workers once the former ones are gone and the GPU answers, for which the service takes a moment.
void Dispatcher::replace_workers() {
  for (Worker& w : workers_) {
    const std::span<Worker> workers = process_of(w);
    if (w.process.pid > 0 && std::all_of(workers.begin(), workers.end(), [](const Worker& o) { return o.trial < 0; }))
      end_of(w);
  }
  if (stopping_ || std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.process.pid > 0; }))
    return;
  constexpr int kTries = 10;
  for (int tries = 1; !stop_requested(); ++tries) try {
      require_device(options_.device, {}, options_.algorithms, options_.gpu);
      break;
    } catch (const Error& error) {
      if (tries < kTries) {
        sleep(1);
        continue;
      }
      broken_ = error.what();
      return stop_workers();
    }
  replacing_ = false;
  for (std::size_t first = 0; first < workers_.size(); first += in_process_) begin(workers_[first]);
}

/// A worker that ended without a report. Its trial is marked as failed, and a new worker replaces it; of several trials
/// in its process, each is tried alone. If it was the first of a trial's processes, the run ends instead, as it does for
/// every other one.
void Dispatcher::worker_died(Worker& w) {
  const pid_t pid = w.process.pid;
  const std::span<Worker> workers = process_of(w);
  const auto reported = [](const Worker& of) {
    pollfd socket{of.process.socket, POLLIN, 0};
    return poll(&socket, 1, 0) > 0;
  };
  for (Worker& worker : workers)
    for (WorkerReport report; reported(worker) && receive_report(worker.process.socket, report);) take(worker, report);
  const WorkerEnd end = end_of(w);
  const bool several = std::count_if(workers.begin(), workers.end(), [](const Worker& o) { return o.trial >= 0; }) > 1;
  if (several && !end.by_cpu_limit && !stopping_ && !replacing_ && !stop_requested())
    say(
        fmt::format("worker {}: {}; the trials that it trained together are tried alone after the others, from their "
                    "last checkpoints",
                    pid, words_of(end.status)));
  for (Worker& worker : workers) trial_of_dead(worker, pid, end, several);
  if (!stopping_ && !replacing_) begin(w);
}

void Dispatcher::trial_of_dead(Worker& w, pid_t pid, const WorkerEnd& end, bool several) {
  const auto t = std::exchange(w.trial, -1);
  if (t >= 0 && !stopping_ && !stop_requested()) {
    const bool of_team = options_.team.forked > 1;
    const std::string message = end.by_cpu_limit ? kCpuLimitWords
                                : of_team        ? Team::death(0, options_.team.forked, pid, end.status)
                                                 : words_of(end.status);
    // A worker that was told to stop exits normally, and may have been sent a trial in between.
    const bool in_order = WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0;
    const auto index = static_cast<std::size_t>(t);
    WorkerEvent event = WorkerEvent::stopped;
    if (!in_order) event = death(index, pid, message, !end.by_cpu_limit && !of_team && !replacing_ && !several);
    if ((replacing_ || several) && event == WorkerEvent::broken && !end.by_cpu_limit)
      event = WorkerEvent::faulted;  // by the GPU's stop, or by a trial of the same process
    end_trial(index, pid, event, message);
  }
}

/// Waits for a process at whose end the socket of a worker is. Its sockets are closed first, which tells a live one to
/// end.
Dispatcher::WorkerEnd Dispatcher::end_of(Worker& w) {
  WorkerProcess process = std::exchange(w.process, {});
  close_once(process.socket);
  for (Worker& worker : process_of(w))
    if (WorkerProcess other = std::exchange(worker.process, {}); other.pid > 0) close_once(other.socket);
  if (process.pid < 0) return {};
  if (process.thread.joinable()) {  // ends between trials after a signal
    process.thread.join();
    return {};
  }
  int status = 0;
  rusage used{};
  uninterrupted([&] { return wait4(process.pid, &status, 0, &used); });
  forget_worker(process.pid);
  return {status, ended_by_cpu_limit(status, used)};
}

/// What happened to the trial of a worker that is gone. `at_fault`: the trial may be the cause, and is
/// marked as failed.
WorkerEvent Dispatcher::death(std::size_t t, pid_t worker, const std::string& message, bool at_fault) {
  const TrialFolder place = folder(t);
  const std::optional<Owner> owner = read_claim(place.path());
  const bool its_own = owner && owner->pid == worker && is_dead(*owner);
  if (owner && !its_own) return WorkerEvent::busy;
  log_line(log_file_, fmt::format("{} {}: {}; see {}", trial(t).id.substr(0, 12), trial(t).label, message,
                                  worker_log(*settings_.store, worker).string()));
  if (!owner && !place.load_result()) return ended_before_it_began(t, message, at_fault);
  const bool failed = at_fault && publish_failure(place, trial(t), message);
  if (owner) {
    remove_temporaries(attempt_folder(place.path(), owner->attempt));
    place.break_claim(*owner);
  }
  if (!at_fault) return WorkerEvent::broken;
  if (failed) return WorkerEvent::failed;
  const auto result = place.load_result();  // killed after publishing it, or published by another process
  if (!result) return WorkerEvent::stopped;
  if (result->status == TrialEnd::failed) return WorkerEvent::failed;
  return result->status == TrialEnd::done ? WorkerEvent::done : WorkerEvent::diverged;
}

/// A trial that has not begun is not marked as failed: another worker gets it, up to kTries times.
WorkerEvent Dispatcher::ended_before_it_began(std::size_t t, const std::string& message, bool at_fault) {
  constexpr int kTries = 3;
  if (at_fault && ++unbegun_[t] < kTries) return WorkerEvent::stopped;
  if (at_fault && broken_.empty())
    broken_ =
        fmt::format("{}: {} workers ended before they began this trial; the last: {}", trial(t).label, kTries, message);
  return WorkerEvent::broken;
}

}  // namespace normlab
