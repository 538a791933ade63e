// Starts threads safely, whatever limits the shell has set.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

namespace normlab {

/// Gives threads started from now on a stack of at least 1 MB, whatever `ulimit -s` says.
void ensure_thread_stacks();
[[noreturn]] void throw_no_thread(const std::system_error& error);

/// Like std::thread's constructor, with a sufficient stack. Throws EnvironmentError if the system starts no
/// more threads.
template <class Body>
std::thread start_thread(Body&& body) {
  ensure_thread_stacks();
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw_no_thread(error);
  }
}

}  // namespace normlab
