#include "experiments/lab/sweep/signals.h"

#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

namespace normlab {

namespace {
std::atomic<bool> requested{false}, cpu_limit{false};
std::atomic<int> signal_number{0};
std::atomic<std::int64_t> first_ms{0};
std::array<std::atomic<pid_t>, kMaxWorkers> workers{};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

std::int64_t milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

extern "C" void on_signal(int number) {
  const int error_number = errno;
  if (!requested.exchange(true)) {
    first_ms = milliseconds();
    signal_number = number;
  } else if (milliseconds() - first_ms >= 1000) {  // timeout(1) and batch systems send the same signal twice at once
    for (const std::atomic<pid_t>& worker : workers)
      if (worker > 0) kill(worker, SIGKILL);
    _exit(128 + number);
  }
  errno = error_number;
}

extern "C" void on_worker_signal(int) { requested = true; }

/// The signal repeats each second until the hard limit, which kills.
extern "C" void on_cpu_limit(int) { requested = cpu_limit = true; }

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;  // without SA_RESTART, so that waiting calls return
  sigfillset(&action.sa_mask);  // handles one signal at a time
  sigaction(number, &action, nullptr);
}

void replace(pid_t from, pid_t to) {
  for (std::atomic<pid_t>& worker : workers)
    if (pid_t expected = from; worker.compare_exchange_strong(expected, to)) return;
}
}  // namespace

void ignore_signals_of_writes() {
  for (const int number : {SIGPIPE, SIGXFSZ}) handle(number, SIG_IGN);
}

/// `ulimit -t` sets both limits, and at the hard limit the system kills without SIGXCPU. So the soft limit is lowered,
/// here and in the workers.
static void handle_cpu_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_max == RLIM_INFINITY || limit.rlim_cur < limit.rlim_max) return;
  const rlim_t for_checkpoints = std::clamp<rlim_t>(limit.rlim_max / 20, 1, 60);  // seconds
  if (limit.rlim_max <= for_checkpoints) return;
  limit.rlim_cur = limit.rlim_max - for_checkpoints;
  setrlimit(RLIMIT_CPU, &limit);
}

static bool ignored(int number) {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void catch_stop_signals() {
  handle_cpu_limit();
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) handle(number, on_signal);
  if (!ignored(SIGHUP)) handle(SIGHUP, on_signal);  // nohup ignores it
  handle(SIGXCPU, on_cpu_limit);
}

void catch_worker_signals() {
  for (const int number : {SIGINT, SIGUSR1, SIGHUP}) handle(number, SIG_IGN);
  handle(SIGTERM, on_worker_signal);
  handle(SIGXCPU, on_cpu_limit);
}

void register_worker(pid_t pid) { replace(0, pid); }
void forget_worker(pid_t pid) { replace(pid, 0); }

bool stop_requested() { return requested; }
bool cpu_limit_reached() { return cpu_limit; }
const std::atomic<bool>& stop_flag() { return requested; }
int stop_exit_code() { return signal_number ? 128 + signal_number : 0; }

}  // namespace normlab
