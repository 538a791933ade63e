// Ctrl-C, SIGTERM, SIGUSR1 (a cluster's notice) and SIGHUP (a closed terminal) ask a run to write a checkpoint and stop
// at the next step. A second signal, at least a second later, ends the process and its workers at once. The CPU time
// limit also stops the run, which then ends with an environment error.
#pragma once

#include <sys/types.h>

#include <atomic>

namespace normlab {

/// Writes beyond the file size limit or to a closed pipe then fail, as on a full disk, instead of ending the process.
void ignore_signals_of_writes();
/// Installs the handlers for SIGINT, SIGTERM, SIGUSR1, SIGHUP and SIGXCPU in the process that hands out trials. SIGHUP
/// stays ignored under nohup.
void catch_stop_signals();
/// Installs the handlers of a worker. SIGTERM, from any sender and however often, stops it at the next step; the system
/// also sends it if the parent dies. SIGINT, SIGUSR1 and SIGHUP, which reach the whole process group, are left to the
/// parent.
void catch_worker_signals();

/// Registers the workers that a second signal kills, at most kMaxWorkers (the largest --workers) at a time.
inline constexpr int kMaxWorkers = 1024;
void register_worker(pid_t pid);
void forget_worker(pid_t pid);

/// True once a stop signal has arrived.
bool stop_requested();
/// True if it was SIGXCPU, and the message for that case.
bool cpu_limit_reached();
inline constexpr const char* kCpuLimitWords =
    "the limit on CPU time is reached (ulimit -t); finished results are safe: raise the limit and start the same "
    "command again";
const std::atomic<bool>& stop_flag();
/// 130 after SIGINT, 143 after SIGTERM, 138 after SIGUSR1, 129 after SIGHUP; 0 without a signal.
int stop_exit_code();

}  // namespace normlab
