// Memory of one shard's step: handed out front to back, taken back all at once, never returned to the system. Fresh
// pages cost more than a pass of arithmetic over them, so a training step after the first touches none.
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

  /// `bytes` at an address that is a multiple of 64; the content is undefined. Throws EnvironmentError without memory.
  void* allocate(std::size_t bytes);
  /// The same for what the host alone uses and the reset forgets: beside the tensors where they are on the host.
  void* allocate_host(std::size_t bytes) { return host_ ? host_->allocate(bytes) : allocate(bytes); }
  /// Gives a block of `allocate(bytes)` back before the reset; the next request of the same size gets it.
  void release(void* block, std::size_t bytes);
  /// An undefined tensor that is stale after the next reset.
  Tensor empty(const Shape& shape, DType dtype) {
    return empty(shape, dtype, static_cast<std::size_t>(shape.size()) * size_of(dtype));
  }
  /// The same in a block of `bytes`, which may be more.
  Tensor empty(const Shape& shape, DType dtype, std::size_t bytes) {
    return Tensor(allocate(bytes), shape, dtype, &epoch_);
  }
  /// Where the next block begins, to come back to.
  struct Mark {
    std::size_t chunk, used, host_chunk, host_used;
  };
  Mark mark() const { return {chunk_, used_, host_ ? host_->chunk_ : 0, host_ ? host_->used_ : 0}; }
  /// Takes back what was handed out since; nothing may have been released since.
  void rewind(const Mark& mark);
  /// Takes everything back. The same requests in the same order get the same addresses again.
  void reset();
  /// Takes and touches as much memory as `other` has, where that has more.
  void grow_like(const Arena& other);
  /// Bytes taken from the system so far.
  std::size_t reserved() const { return reserved_ + (host_ ? host_->reserved() : 0); }

 private:
  struct Chunk {
    char* begin;
    std::size_t bytes;
  };
  /// A block that was given back. Beside it and not inside: the host does not write where a device works.
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
  const std::unique_ptr<Arena> host_;  // where memory_ is a device's
  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0, used_ = 0, reserved_ = 0;
  std::array<FreeList, 32> free_{};  // a network has few distinct sizes; a size that finds no list waits for the reset
  Free* spare_ = nullptr;
  std::uint64_t epoch_ = 1;
};

}  // namespace normlab
