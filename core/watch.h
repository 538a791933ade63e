// How long stretches of a device's work take.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace normlab {

class Watch {
 public:
  struct Lap {
    double seconds = 0;
    std::int64_t launches = 0;  // kernels that were started; 0 where a kernel is a function
  };
  virtual ~Watch() = default;
  /// Marks where the work requested so far ends, without waiting for it.
  virtual void mark() = 0;
  /// For each mark since the last call, what came after the mark before it; nothing for the first. Waits for the last.
  virtual std::vector<Lap> take() = 0;
};

/// For work that is done when the call returns that requests it.
std::unique_ptr<Watch> host_watch();

}  // namespace normlab
