#include "experiments/sweep/signals.h"

#include <signal.h>
#include <unistd.h>

namespace normlab {
namespace {
std::atomic<bool> requested{false};
std::atomic<int> signal_number{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

extern "C" void on_signal(int number) {
  if (requested.exchange(true)) _exit(128 + number);
  signal_number = number;
}
}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;  // without SA_RESTART: whoever waits wakes up
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) sigaction(number, &action, nullptr);
}

bool stop_requested() { return requested; }
const std::atomic<bool>& stop_flag() { return requested; }
int stop_exit_code() { return signal_number ? 128 + signal_number : 0; }

}  // namespace normlab
