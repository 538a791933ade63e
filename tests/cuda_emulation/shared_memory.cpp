#include "tests/cuda_emulation/shared_memory.h"

#include "core/error.h"
#include "tests/cuda_emulation/heap.h"
#include "tests/cuda_emulation/scheduler.h"

namespace normlab::emulation {
namespace {

constexpr std::size_t kRedZone = 64;

}  // namespace

SharedMemory::SharedMemory() : begin_(static_cast<char*>(heap_allocate(2 * kMost))) { heap_end_use(begin_, 2 * kMost); }
SharedMemory::~SharedMemory() { heap_release(begin_); }

void SharedMemory::begin_block(std::size_t dynamic) {
  pieces_.clear();
  heap_end_use(begin_, used_);
  used_ = arrays_ = 0;
  dynamic_ = dynamic;
  if (dynamic) take(nullptr, dynamic);
}

void* SharedMemory::take(const void* key, std::size_t bytes) {
  for (const Piece& piece : pieces_)
    if (piece.key == key) return piece.memory;
  if (!key && bytes == 0) fault("asks for shared memory, but the launch gave it none");
  if (used_ + bytes > kMost) fault(concat("shared memory: ", bytes, " bytes beside ", used_, " are more than ", kMost));
  if (key) {
    arrays_ += bytes;
    if (const std::size_t most = dynamic_ ? kArraysBeside : kArrays; arrays_ > most)
      fault(concat("shared memory: arrays of ", arrays_, " bytes, but ", most, " are allowed",
                   dynamic_ ? " in a launch that asks for more" : ""));
  }
  void* memory = begin_ + used_;
  heap_begin_use(memory, bytes);
  pieces_.push_back({key, memory});
  used_ += (bytes + 2 * kRedZone - 1) / kRedZone * kRedZone;
  return memory;
}

}  // namespace normlab::emulation
