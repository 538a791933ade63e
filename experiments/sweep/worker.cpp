#include "experiments/sweep/worker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "experiments/descriptor/canonical.h"
#include "experiments/descriptor/fields.h"
#include "experiments/results/files.h"
#include "experiments/sweep/signals.h"

namespace normlab {
namespace {

template <class Record>
bool send_record(int socket, const Record& record) {
  for (;;) {
    const ssize_t n = send(socket, &record, sizeof record, MSG_NOSIGNAL);
    if (n == static_cast<ssize_t>(sizeof record)) return true;
    if (n < 0 && errno == EINTR) continue;
    return false;
  }
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

Report report_of(WorkerEvent event, std::int64_t trial, const std::string& text = {}) {
  Report report;
  report.event = event;
  report.trial = trial;
  std::snprintf(report.text, sizeof report.text, "%s", text.c_str());
  return report;
}

/// A trial that cannot be trained is a result as well: the table shows why, and the next run tries again.
void publish_failure(const TrialFolder& folder, const Trial& trial, const std::string& message) {
  TrialResult result;
  result.id = trial.id;
  result.seed = trial.config.seed;
  result.status = TrialEnd::failed;
  result.message = message;
  folder.publish_result(result);
}

/// A label without what means something in a path.
std::string folder_name(std::string label) {
  std::replace(label.begin(), label.end(), '/', '_');
  return label.front() == '.' ? "_" + label : label;
}

Report run_one(const WorkerSettings& settings, const Assignment& assignment, int socket) {
  const Trial& trial = settings.experiment->trials[static_cast<std::size_t>(assignment.trial)];
  const TrialFolder folder = settings.store->trial(trial.id);
  const auto answer = [&](WorkerEvent event, const std::string& text = {}) {
    return report_of(event, assignment.trial, text);
  };
  try {
    if (folder.finished()) return answer(WorkerEvent::finished);
    make_folders(folder.path());
    folder.write_config(full_json(trial.config));
    const std::optional<Claim> claim = folder.claim();
    if (!claim) return answer(folder.finished() ? WorkerEvent::finished : WorkerEvent::busy);
    TrialOptions options;
    options.threads = assignment.threads;
    options.checkpoint = settings.experiment->checkpoint;
    options.probes = settings.experiment->probes;
    options.allow_different_bits = settings.allow_different_bits;
    options.data_threads = settings.data_threads;
    if (!settings.tensorboard.empty())
      options.tensorboard = settings.tensorboard / settings.experiment->stem / folder_name(trial.label);
    options.stop = &stop_flag();
    options.report = [&](const TrialProgress& p) {
      Report report = answer(WorkerEvent::progress);
      report.step = p.step, report.steps = p.steps, report.loss = p.loss, report.images = p.images;
      send_record(socket, report);
    };
    try {
      const DataPair& data = settings.data->at(data_key(trial.config.dataset));
      switch (run_trial(trial.config, trial.id, data, folder, *claim, options)) {
        case TrialOutcome::done:
          return answer(WorkerEvent::done);
        case TrialOutcome::diverged:
          return answer(WorkerEvent::diverged);
        case TrialOutcome::stopped:
          return answer(WorkerEvent::stopped);
      }
    } catch (const EnvironmentError&) {
      throw;  // a full disk is no property of the trial
    } catch (const InputError& error) {
      return answer(WorkerEvent::refused, error.what());
    } catch (const std::exception& error) {
      publish_failure(folder, trial, error.what());
      return answer(WorkerEvent::failed, error.what());
    }
  } catch (const std::exception& error) {
    return answer(WorkerEvent::broken, error.what());
  }
  return answer(WorkerEvent::failed);
}

[[noreturn]] void worker_main(const WorkerSettings& settings, int socket) {
  // Only the process that started it says when to stop: a Ctrl-C reaches the whole group, and would come twice.
  catch_stop_signals();
  signal(SIGINT, SIG_IGN);
  signal(SIGUSR1, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // without the process that started it nobody would read its reports
  Assignment assignment;
  while (!stop_requested() && receive_record(socket, assignment) && assignment.trial >= 0)
    if (!send_record(socket, run_one(settings, assignment, socket))) break;
  std::fflush(nullptr);
  _exit(0);  // the parent's buffers and destructors are not this process's to run
}

}  // namespace

std::string data_key(const DatasetConfig& config) {
  std::string key;
  for_each_field<DatasetConfig>([&](const auto& field) {
    const auto& value = config.*field.member;
    if constexpr (std::is_enum_v<std::decay_t<decltype(value)>>)
      key += fmt::format("{}={}|", field.key, int(value));
    else
      key += fmt::format("{}={}|", field.key, value);
  });
  return key;
}

WorkerProcess start_worker(const WorkerSettings& settings) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    throw EnvironmentError(fmt::format("cannot start a worker: {}", std::strerror(errno)));
  const pid_t pid = fork();
  if (pid < 0) {
    close(sockets[0]), close(sockets[1]);
    throw EnvironmentError(fmt::format("cannot start a worker: {}; use fewer --workers", std::strerror(errno)));
  }
  if (pid == 0) {
    close(sockets[0]);
    worker_main(settings, sockets[1]);
  }
  close(sockets[1]);
  return {pid, sockets[0]};
}

bool send_assignment(int socket, const Assignment& assignment) { return send_record(socket, assignment); }
bool receive_report(int socket, Report& report) { return receive_record(socket, report); }

}  // namespace normlab
