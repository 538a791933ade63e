// Where tensors live. Each device has its own; arenas, parameters and moments get it from Backend::memory(). The host
// may read and write all of it between Backend::synchronize() and the next kernel.
#pragma once

#include <cstddef>

namespace normlab {

class Memory {
 public:
  virtual ~Memory() = default;
  /// `bytes` > 0 at a multiple of 64, or of 2 MB for blocks of at least that size; contents undefined. Throws
  /// EnvironmentError if out of memory.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* block, std::size_t bytes) noexcept = 0;
  /// Zeroes the block, in order with kernels started before and after.
  virtual void clear(void* block, std::size_t bytes) = 0;
  /// Makes the system supply a fresh block's pages, which would otherwise happen on first use.
  virtual void touch(void* block, std::size_t bytes) = 0;
  /// The host uses this memory all the time, so small host objects may lie between tensors.
  virtual bool on_host() const = 0;
  /// Begins a new period for peak().
  virtual void restart_peak() = 0;
  /// The most bytes that this process held at once since restart_peak(). On the host all its resident pages count, with
  /// code and data sets; on a device normlab's blocks and buffers. 0 without restart_peak(), or if the system does not
  /// say.
  virtual std::size_t peak() const = 0;

  // For memory that checks its use: it is told which parts of a block are in use, and gets gap() bytes after each part.
  virtual std::size_t gap() const { return 0; }
  virtual void begin_use([[maybe_unused]] void* part, [[maybe_unused]] std::size_t bytes) {}
  virtual void end_use([[maybe_unused]] void* part, [[maybe_unused]] std::size_t bytes) {}
};

/// The system's memory, in pages of 2 MB for blocks that large: later passes over it are 1.7 times faster.
Memory& host_memory();

}  // namespace normlab
