// Ctrl-C and SIGTERM ask a run to stop at the next step, with a checkpoint. A second one of either ends the process at
// once.
#pragma once

#include <atomic>

namespace normlab {

/// Installs the handlers for SIGINT, SIGTERM and SIGUSR1 in this process.
void catch_stop_signals();
/// True once one of them has come.
bool stop_requested();
const std::atomic<bool>& stop_flag();
/// 130 after SIGINT, 143 after SIGTERM, 138 after SIGUSR1; 0 where none came.
int stop_exit_code();

}  // namespace normlab
