// Ctrl-C, SIGTERM and SIGUSR1 (a cluster's notice) ask a run to stop at the next step, with a checkpoint. A second one,
// a second later or more, ends the process and its workers at once. A limit on CPU time asks for it too, and the run
// then ends as the machine's fault.
#pragma once

#include <sys/types.h>

#include <atomic>

namespace normlab {

/// A write beyond a limit on file sizes or to a closed pipe fails, as on a full disk, and does not end the process.
void ignore_signals_of_writes();
/// Installs the handlers for SIGINT, SIGTERM, SIGUSR1 and SIGXCPU in the process that hands out trials.
void catch_stop_signals();
/// Installs those of a worker: SIGTERM stops it, as often as it comes, by its parent, the system where the parent dies,
/// or anybody. SIGINT and SIGUSR1, which reach a whole group of processes, are for the parent to decide on.
void catch_worker_signals();

/// Workers that a second signal ends. No more than the largest --workers at a time.
inline constexpr int kMaxWorkers = 1024;
void register_worker(pid_t pid);
void forget_worker(pid_t pid);

/// True once one of them has come.
bool stop_requested();
/// True where it was SIGXCPU, and what is to be said then.
bool cpu_limit_reached();
inline constexpr const char* kCpuLimitWords =
    "the limit on CPU time is reached (ulimit -t); finished results are safe: raise the limit and start the same "
    "command again";
const std::atomic<bool>& stop_flag();
/// 130 after SIGINT, 143 after SIGTERM, 138 after SIGUSR1; 0 where none came.
int stop_exit_code();

}  // namespace normlab
