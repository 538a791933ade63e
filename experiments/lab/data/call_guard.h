// Calls of C libraries whose error handlers must not return.
#pragma once

#include <csetjmp>

namespace normlab {

/// An exception must not cross a library's C frames, so its error handler writes `message` and jumps.
struct CallGuard {
  std::jmp_buf jump{};
  char message[200] = "";

  /// False, with `message`, if a handler jumped. All objects in `calls` have trivial destructors.
  template <class Calls>
  bool run(Calls&& calls) {
    if (setjmp(jump) != 0) return false;
    calls();
    return true;
  }
};

}  // namespace normlab
