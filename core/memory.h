// Where tensors live. A device hands out its own; everything above (arenas, parameters, moments) takes it from
// Backend::memory(). The host may read and write all of it between Backend::synchronize() and the next kernel.
#pragma once

#include <cstddef>

namespace normlab {

class Memory {
 public:
  virtual ~Memory() = default;
  /// `bytes` > 0 at an address that is a multiple of 64, of 2 MB for that much or more; the content is undefined.
  /// Throws EnvironmentError where there is no more.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* block, std::size_t bytes) noexcept = 0;
  /// Zeroes it, after the kernels that were started before and before those that come.
  virtual void clear(void* block, std::size_t bytes) = 0;
  /// Takes the pages of a fresh block from the system, which its first use would do otherwise.
  virtual void touch(void* block, std::size_t bytes) = 0;
  /// The host works on it all the time, so that small things of the host may lie between tensors.
  virtual bool on_host() const = 0;

  // Memory that checks its use is told which parts of a block are in use, and gets some bytes behind each to itself.
  virtual std::size_t gap() const { return 0; }
  virtual void begin_use([[maybe_unused]] void* part, [[maybe_unused]] std::size_t bytes) {}
  virtual void end_use([[maybe_unused]] void* part, [[maybe_unused]] std::size_t bytes) {}
};

/// The system's, in pages of 2 MB where a block is that large: later passes over it are 1.7 times faster.
Memory& host_memory();

}  // namespace normlab
