#include "tests/cuda_emulation/heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "core/error.h"
#include "tests/cuda_emulation/scheduler.h"

namespace normlab::emulation {

constinit char* heap_begin = nullptr;
constinit std::size_t heap_bytes = 0;
constinit std::uint8_t* heap_marks = nullptr;
constinit Touches* heap_all_touches = nullptr;

namespace {

constexpr std::size_t kHeap = std::size_t{8} << 30;  // addresses, not memory
constexpr std::size_t kUnit = kMarkBytes;
constexpr std::size_t kAlign = std::size_t{64} << 10;  // of a block; what is left over is a red zone, as is one more
constexpr std::uint8_t kNone = 0;                      // a mark of bytes that are not in use

std::mutex mutex;
std::map<std::size_t, std::size_t> taken;               // offset and bytes of blocks
std::multimap<std::size_t, std::size_t> free_by_bytes;  // rounded bytes and offset
std::size_t used = 0;

void* reserve(std::size_t bytes) {
  void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) throw EnvironmentError("cuda emulation: cannot reserve its range of addresses");
  return map;
}

void open() {
  heap_marks = static_cast<std::uint8_t*>(reserve(kHeap / kUnit));
  heap_all_touches = static_cast<Touches*>(reserve(kHeap / 4 * sizeof(Touches)));
  heap_begin = static_cast<char*>(reserve(kHeap));
  heap_bytes = kHeap;
}

std::size_t rounded(std::size_t bytes) { return (bytes + kAlign) / kAlign * kAlign; }

}  // namespace

void* heap_allocate(std::size_t bytes) {
  std::lock_guard lock(mutex);
  if (!heap_begin) open();
  bytes = std::max<std::size_t>(bytes, 1);
  const std::size_t all = rounded(bytes);
  std::size_t offset;
  if (const auto found = free_by_bytes.find(all); found != free_by_bytes.end()) {
    offset = found->second;
    free_by_bytes.erase(found);
  } else {
    // As a device gives large blocks, at a multiple of 2 MB.
    constexpr std::size_t kLarge = std::size_t{2} << 20;
    offset = used == 0 ? kAlign : used;
    if (bytes >= kLarge) offset = (offset + kLarge - 1) / kLarge * kLarge;
    if (offset + all > kHeap)
      throw EnvironmentError(concat("cuda emulation: out of memory: ", bytes, " bytes asked, ", kHeap - used, " free"));
    used = offset + all;
  }
  taken[offset] = bytes;
  heap_begin_use(heap_begin + offset, bytes);
  return heap_begin + offset;
}

void heap_release(void* block) {
  std::lock_guard lock(mutex);
  const auto found = in_heap(block) ? taken.find(heap_offset(block)) : taken.end();
  if (found == taken.end()) throw Fault("cudaFree: an address that is no block, or was given back before");
  const auto [offset, bytes] = *found;
  heap_end_use(block, bytes);
  free_by_bytes.emplace(rounded(bytes), offset);
  taken.erase(found);
}

void heap_begin_use(void* part, std::size_t bytes) {
  const std::size_t first = heap_offset(part) / kUnit, whole = bytes / kUnit;
  std::fill_n(heap_marks + first, whole, static_cast<std::uint8_t>(kUnit));
  if (bytes % kUnit) heap_marks[first + whole] = static_cast<std::uint8_t>(bytes % kUnit);
  static const auto poison = [] {
    std::array<std::uint16_t, 2048> pairs;
    pairs.fill(kPoison);
    return pairs;
  }();
  for (std::size_t at = 0; at < bytes; at += sizeof poison)
    memcpy(static_cast<char*>(part) + at, poison.data(), std::min(sizeof poison, bytes - at));
}

void heap_end_use(void* part, std::size_t bytes) {
  std::fill_n(heap_marks + heap_offset(part) / kUnit, (bytes + kUnit - 1) / kUnit, kNone);
}

bool heap_all_in_use(const void* address, std::size_t bytes) {
  const std::size_t first = heap_offset(address);
  if (first + bytes > kHeap) return false;
  for (std::size_t at = first; at < first + bytes; at = (at / kUnit + 1) * kUnit) {
    const std::size_t last = std::min(first + bytes, (at / kUnit + 1) * kUnit) - 1;
    if (last % kUnit >= heap_marks[at / kUnit]) return false;
  }
  return true;
}

std::string heap_describe(const void* address) {
  constexpr std::size_t kFar = 4096;
  const std::size_t at = heap_offset(address);
  std::size_t unit = at / kUnit;
  // Backwards to the part that ends before it.
  for (std::size_t back = unit, steps = 0; steps < kFar / kUnit; --back, ++steps) {
    if (heap_marks[back] != kNone) {
      const std::size_t end = back * kUnit + heap_marks[back];
      std::size_t begin = back;
      while (begin > 0 && heap_marks[begin - 1] == kUnit) --begin;
      const std::size_t bytes = end - begin * kUnit;
      if (at < end) return concat("over the end of a tensor of ", bytes, " bytes");
      return concat(at - end, " bytes beyond the end of a tensor of ", bytes, " bytes");
    }
    if (back == 0) break;
  }
  for (std::size_t forward = unit; forward < unit + kFar / kUnit && forward < kHeap / kUnit; ++forward)
    if (heap_marks[forward] != kNone) return concat(forward * kUnit - at, " bytes before the begin of a tensor");
  return "where no tensor is";
}

}  // namespace normlab::emulation
