// Memory of one shard's step: allocated front to back, reset as a whole, never returned to the system. Fresh pages cost
// more than a pass of arithmetic over them, so a training step after the first uses none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/memory.h"
#include "core/tensor.h"

namespace normlab {

class Arena {
 public:
  /// `memory` must outlive the arena.
  explicit Arena(Memory& memory = host_memory());
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// `bytes` at a multiple of 64, contents undefined. Throws EnvironmentError if out of memory.
  void* allocate(std::size_t bytes);
  /// The same for objects that only the host uses and the reset drops. On the host they lie among the tensors.
  void* allocate_host(std::size_t bytes) { return host_ ? host_->allocate(bytes) : allocate(bytes); }
  /// Returns a block of `allocate(bytes)` before the reset; the next request of that size reuses it.
  void release(void* block, std::size_t bytes);
  /// An uninitialised tensor that becomes stale at the next reset.
  Tensor empty(const Shape& shape, DType dtype) {
    return empty(shape, dtype, static_cast<std::size_t>(shape.size()) * size_of(dtype));
  }
  /// The same in a block of `bytes`, which may be larger than the tensor.
  Tensor empty(const Shape& shape, DType dtype, std::size_t bytes) {
    return Tensor(allocate(bytes), shape, dtype, &epoch_);
  }
  /// The current position, for rewind().
  struct Mark {
    std::size_t chunk, used, host_chunk, host_used;
  };
  Mark mark() const { return {chunk_, used_, host_ ? host_->chunk_ : 0, host_ ? host_->used_ : 0}; }
  /// Frees everything allocated since the mark. Nothing may have been released in between.
  void rewind(const Mark& mark);
  /// Frees everything. The same requests in the same order then get the same addresses.
  void reset();
  /// Takes and touches as much memory as `other` has, if that is more.
  void grow_like(const Arena& other);
  /// Bytes taken from the system so far.
  std::size_t reserved() const { return reserved_ + (host_ ? host_->reserved() : 0); }

 private:
  struct Chunk {
    char* begin;
    std::size_t bytes;
  };
  /// A released block. Stored outside the block because the host does not write to device memory.
  struct Free {
    Free* next;
    void* block;
  };
  struct FreeList {
    std::size_t bytes = 0;
    Free* head = nullptr;
  };
  FreeList* free_list(std::size_t bytes);
  void add_chunk(std::size_t at_least);

  Memory& memory_;
  const std::unique_ptr<Arena> host_;  // if memory_ belongs to a device
  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0, used_ = 0, reserved_ = 0;
  std::array<FreeList, 32> free_{};  // networks use few distinct sizes; blocks of further sizes wait for the reset
  Free* spare_ = nullptr;
  std::uint64_t epoch_ = 1;
};

}  // namespace normlab
