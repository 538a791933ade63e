// Runs a function in a forked process, as another run of the program would.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace normlab {

/// Starts `work` in a child, whose exit code is the returned value (99 if it throws). Returns its process id.
template <class Work>
pid_t start_child(Work&& work) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child > 0) return child;
  int code = 99;
  try {
    code = work();
  } catch (...) {
  }
  ::_exit(code);  // without destructors and a second report of the test runner
}

/// Waits for it; its exit code, or minus the signal that killed it.
inline int wait_for_child(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace normlab
