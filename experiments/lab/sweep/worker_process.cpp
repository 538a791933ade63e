// The processes of workers, and their connections.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/device_fault.h"
#include "core/memory_error.h"
#include "core/start_thread.h"
#include "core/trial_stack.h"
#include "cuda/backend.h"
#include "experiments/lab/base/system_calls.h"
#include "experiments/lab/sweep/signals.h"
#include "experiments/lab/sweep/worker.h"

namespace normlab {
namespace {

template <class Record>
bool send_record(int socket, const Record& record) {
  return uninterrupted([&] { return send(socket, &record, sizeof record, MSG_NOSIGNAL); }) == ssize_t{sizeof record};
}

template <class Record>
bool receive_record(int socket, Record& record) {
  for (;;) {
    const ssize_t n = recv(socket, &record, sizeof record, 0);
    if (n == static_cast<ssize_t>(sizeof record)) return true;
    if (n < 0 && errno == EINTR && !stop_requested()) continue;
    return false;
  }
}

/// If memory runs out, the system should kill a worker, not the process that hands out trials. If it ignores this
/// setting, it chooses by size, which usually also hits a worker.
void prefer_to_be_killed() {
  if (std::FILE* file = std::fopen("/proc/self/oom_score_adj", "w")) {
    std::fputs("500", file);
    std::fclose(file);
  }
}

/// Answers with one trial. False if the worker ends.
bool serve(const WorkerSettings& settings, TrialWorker& worker) {
  Assignment assignment;
  if (stop_requested() || !receive_record(worker.socket, assignment) || assignment.trial < 0) return false;
  worker.clock.enter(WorkPart::start);
  WorkerReport report = work_on(settings, assignment, worker);
  worker.clock.enter(WorkPart::waiting);
  report.times = worker.clock.times();
  return send_record(worker.socket, report) && !report.last;
}

void work_on_trials(const WorkerSettings& settings, const WorkClock& clock, int socket) {
  TrialWorker worker{socket, clock};
  while (serve(settings, worker)) {
  }
}

/// The same for trials that a GPU trains together: one for each socket.
void work_on_stack(const WorkerSettings& settings, const WorkClock& clock, const std::vector<int>& sockets,
                   bool shared) {
  const int places = static_cast<int>(sockets.size());
  std::unique_ptr<TrialStack> stack;
  const auto refuse = [&](WorkerEvent event, const std::string& why) {
    Assignment assignment;
    if (!receive_record(sockets[0], assignment) || assignment.trial < 0) return;
    WorkerReport report;
    report.event = event;
    report.last = event == WorkerEvent::faulted;
    report.trial = assignment.trial;
    std::snprintf(report.text, sizeof report.text, "%s", why.c_str());
    send_record(sockets[0], report);
  };
  try {
    stack = make_cuda_stack(places, settings.options->gpu, shared);
  } catch (const DeviceFault& error) {
    return refuse(shared ? WorkerEvent::faulted : WorkerEvent::broken, error.what());
  } catch (const DeviceMemoryError& error) {
    return refuse(WorkerEvent::broken, concat(error.what(), "; use a smaller --stack than ", places));
  } catch (const std::exception& error) {
    return refuse(WorkerEvent::broken, error.what());
  }
  bool over = false;  // for all, as the parent ends its workers together
  stack->run([&](int place) {
    TrialWorker worker{sockets[static_cast<std::size_t>(place)], clock, &stack->backend(place), places};
    const auto called = [&] {
      pollfd assigned{worker.socket, POLLIN, 0};
      return over || stop_requested() || poll(&assigned, 1, 0) > 0;
    };
    for (stack->wait(called); !over && serve(settings, worker);) stack->wait(called);
    over = true;
  });
}

[[noreturn]] void worker_main(const WorkerSettings& settings, pid_t parent, FunctionRef<void()> work) {
  catch_worker_signals();
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // without its parent, no process reads the reports
  if (getppid() != parent) _exit(0);
  prefer_to_be_killed();
  // What a library prints before it aborts should appear neither in the table nor in the live view.
  const int log = open(worker_log(*settings.store, getpid()).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (log >= 0) {
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    close(log);
  }
  work();
  std::fflush(nullptr);
  _exit(0);  // skips the parent's buffers and destructors
}

/// Ends of connections of this process with a worker, and the worker's.
struct Connections {
  std::vector<int> own{}, theirs{};
  explicit Connections(std::size_t count) {
    while (own.size() < count) {
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        const std::string reason = std::strerror(errno);
        close_all(own);
        close_all(theirs);
        throw EnvironmentError(fmt::format("cannot start a worker: {}", reason));
      }
      own.push_back(ends[0]);
      theirs.push_back(ends[1]);
    }
  }
  static void close_all(const std::vector<int>& sockets) {
    for (const int socket : sockets) close(socket);
  }
};

std::vector<WorkerProcess> forked(const WorkerSettings& settings, std::size_t count,
                                  FunctionRef<void(const std::vector<int>& sockets)> work) {
  const Connections made(count);
  const pid_t parent = getpid();
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    Connections::close_all(made.own);
    worker_main(settings, parent, [&] { work(made.theirs); });
  }
  const std::string reason = pid < 0 ? std::strerror(errno) : "";
  Connections::close_all(made.theirs);
  if (pid < 0) {
    Connections::close_all(made.own);
    throw EnvironmentError(fmt::format("cannot start a worker: {}; use fewer --workers", reason));
  }
  std::vector<WorkerProcess> started;
  for (const int socket : made.own) started.push_back({pid, socket, {}});
  return started;
}

}  // namespace

WorkerProcess start_worker(const WorkerSettings& settings) {
  const WorkClock clock;
  if (settings.options->team.group->alone()) {
    auto started =
        forked(settings, 1, [&](const std::vector<int>& sockets) { work_on_trials(settings, clock, sockets[0]); });
    return std::move(started[0]);
  }
  const Connections made(1);
  return {getpid(), made.own[0], start_thread([&settings, clock, socket = made.theirs[0]] {
            work_on_trials(settings, clock, socket);
            close(socket);
          })};
}

std::vector<WorkerProcess> start_stack(const WorkerSettings& settings, std::size_t count, bool shared) {
  const WorkClock clock;
  // Each trial has a connection and open files; many systems allow 1,024 unless a process asks for more.
  if (rlimit files{}; getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  return forked(settings, count,
                [&](const std::vector<int>& sockets) { work_on_stack(settings, clock, sockets, shared); });
}

bool send_assignment(int socket, const Assignment& assignment) { return send_record(socket, assignment); }
bool receive_report(int socket, WorkerReport& report) { return receive_record(socket, report); }

}  // namespace normlab
