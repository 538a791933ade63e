// The shared memory of the block that runs: pieces by the place in the source that asks for them, each with a red zone
// and undefined at first.
#pragma once

#include <cstddef>
#include <vector>

namespace normlab::emulation {

class SharedMemory {
 public:
  static constexpr std::size_t kMost = std::size_t{227} << 10;  // bytes of a block on sm_90
  /// Most bytes of all arrays of fixed size, alone and beside what the launch asks for (cuda/launch.h).
  static constexpr std::size_t kArrays = std::size_t{48} << 10, kArraysBeside = std::size_t{16} << 10;

  SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  /// All pieces end. The launch of the next block asked for `dynamic` bytes.
  void begin_block(std::size_t dynamic);
  /// `bytes` under `key`, the same for all threads; null: what the launch asked for. Faults where there is no more.
  void* take(const void* key, std::size_t bytes);
  /// All addresses that it can ever give.
  const char* begin() const { return begin_; }
  const char* end() const { return begin_ + 2 * kMost; }

 private:
  struct Piece {
    const void* key;
    void* memory;
  };
  std::vector<Piece> pieces_;
  char* begin_;
  std::size_t used_ = 0, dynamic_ = 0, arrays_ = 0;
};

}  // namespace normlab::emulation
