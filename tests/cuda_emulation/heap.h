// The memory of the emulated device: one range of addresses, with what is known of each byte beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace normlab::emulation {

/// Two bytes that every fresh part is filled with: NaN in each floating-point type, and no number that is likely to be
/// an index, a label or a mask.
inline constexpr std::uint16_t kPoison = 0xffa5;

/// Of one block; never null. Throws EnvironmentError where the range is used up.
void* heap_allocate(std::size_t bytes);
/// Throws Fault for an address that heap_allocate() did not give, or took back.
void heap_release(void* block);
/// Parts of a block that may be touched. A fresh one is poisoned.
void heap_begin_use(void* part, std::size_t bytes);
void heap_end_use(void* part, std::size_t bytes);

/// Who touched some bytes last. Where `serial` of two differ by the launch, they have nothing to do with each other.
struct Touch {
  std::uint32_t serial = 0;  // of the block of threads, counted over all launches
  std::uint16_t thread = 0;
  std::uint8_t bytes = 0;    // a bit for each of four bytes
  std::uint8_t several = 0;  // threads did: 1 of one warp, 2 of one block, 3 of several
  std::uint32_t barriers = 0, warp_barriers = 0;
};
struct Touches {
  Touch write, read;
};

// Laid open so that what each touch of memory asks is inline.
inline constexpr std::size_t kMarkBytes = 8;  // that a mark stands for: so many of them, from the first on, are in use
extern char* heap_begin;
extern std::size_t heap_bytes;
extern std::uint8_t* heap_marks;
extern Touches* heap_all_touches;

inline std::size_t heap_offset(const void* address) {
  return static_cast<std::size_t>(static_cast<const char*>(address) - heap_begin);
}
inline bool in_heap(const void* address) { return heap_offset(address) < heap_bytes; }
/// All of these bytes may be touched. They begin in the range.
bool heap_all_in_use(const void* address, std::size_t bytes);
inline bool heap_in_use(const void* address, std::size_t bytes) {
  if (bytes == 0) return true;
  const std::size_t first = heap_offset(address), last = first + bytes - 1;
  if (first / kMarkBytes != last / kMarkBytes) return heap_all_in_use(address, bytes);
  return last % kMarkBytes < heap_marks[first / kMarkBytes];
}
/// "3 bytes beyond the end of a part of 40 bytes": where a bad address lies.
std::string heap_describe(const void* address);
/// Of the four bytes that hold an address of the range.
inline Touches& heap_touches(const void* address) { return heap_all_touches[heap_offset(address) / 4]; }

}  // namespace normlab::emulation
