// How threads begin: the limits of the shell that started this process must not crash them.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

namespace normlab {

/// Gives threads that start from now on a stack of 1 MB at least, whatever `ulimit -s` says.
void ensure_thread_stacks();
[[noreturn]] void throw_no_thread(const std::system_error& error);

/// As the constructor of std::thread, with a stack that suffices. EnvironmentError where the system starts no more
/// threads.
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
