#include "core/start_thread.h"

#include <pthread.h>

#include "core/error.h"

namespace normlab {

void ensure_thread_stacks() {
  [[maybe_unused]] static const bool done = [] {
    constexpr std::size_t kLeast = std::size_t{1} << 20;
    pthread_attr_t attributes;
    std::size_t bytes = 0;
    if (pthread_getattr_default_np(&attributes) != 0) return false;
    if (pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < kLeast &&
        pthread_attr_setstacksize(&attributes, kLeast) == 0)
      pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
    return true;
  }();
}

void throw_no_thread(const std::system_error& error) {
  throw EnvironmentError(concat("cannot start a thread (", error.code().message(),
                                "); raise the limits on processes and address space (ulimit -u, ulimit -v), or use "
                                "fewer --workers and --threads"));
}

}  // namespace normlab
