#include "core/arena.h"

#include <sys/mman.h>

#include <cstring>

#include "core/memory_error.h"

namespace normlab {
namespace {
constexpr std::size_t kAlign = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kMaxChunk = std::size_t{64} << 20;
constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }
}  // namespace

Arena::~Arena() {
  for (const Chunk& chunk : chunks_) munmap(chunk.begin, chunk.bytes);
}

void Arena::add_chunk(std::size_t at_least) {
  // Chunks double, so that a small model takes little and a large one few maps.
  const std::size_t wanted = chunks_.empty() ? kHugePage : std::min(2 * chunks_.back().bytes, kMaxChunk);
  const std::size_t bytes = round_up(std::max(at_least, wanted), kHugePage);
  // One huge page more than needed: the front and the tail beyond the aligned part go back at once.
  void* map = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    throw MemoryError(concat("out of memory: cannot map ", bytes >> 20, " MB (", std::strerror(errno),
                                  "); use a smaller batch or fewer workers"));
  const auto address = reinterpret_cast<std::uintptr_t>(map);
  const std::size_t front = round_up(address, kHugePage) - address;
  if (front) munmap(map, front);
  char* begin = static_cast<char*>(map) + front;
  if (front < kHugePage) munmap(begin + bytes, kHugePage - front);
  madvise(begin, bytes, MADV_HUGEPAGE);
  chunks_.push_back({begin, bytes});
  reserved_ += bytes;
}

Arena::FreeList* Arena::free_list(std::size_t bytes) {
  for (FreeList& list : free_) {
    if (list.bytes == 0) list.bytes = bytes;
    if (list.bytes == bytes) return &list;
  }
  return nullptr;
}

void* Arena::allocate(std::size_t bytes) {
  bytes = round_up(std::max<std::size_t>(bytes, 1), kAlign);
  if (FreeList* list = free_list(bytes); list && list->head) {
    void* block = list->head;
    std::memcpy(&list->head, block, sizeof(void*));
    return block;
  }
  while (chunk_ < chunks_.size() && chunks_[chunk_].bytes - used_ < bytes) ++chunk_, used_ = 0;
  if (chunk_ == chunks_.size()) add_chunk(bytes), used_ = 0;
  char* block = chunks_[chunk_].begin + used_;
  used_ += bytes;
  return block;
}

void Arena::release(void* block, std::size_t bytes) {
  bytes = round_up(std::max<std::size_t>(bytes, 1), kAlign);
  if (FreeList* list = free_list(bytes)) {
    std::memcpy(block, &list->head, sizeof(void*));
    list->head = block;
  }
}

void Arena::grow_like(const Arena& other) {
  for (std::size_t i = chunks_.size(); i < other.chunks_.size(); ++i) {
    add_chunk(other.chunks_[i].bytes);
    constexpr std::size_t kPage = 4096;  // the smallest there is; a huge page is there after its first byte
    for (std::size_t at = 0; at < chunks_.back().bytes; at += kPage) chunks_.back().begin[at] = 0;
  }
}

Tensor Arena::empty(const Shape& shape, DType dtype) {
  return Tensor(allocate(static_cast<std::size_t>(shape.size()) * size_of(dtype)), shape, dtype, &epoch_);
}

void Arena::reset() {
  chunk_ = used_ = 0;
  free_ = {};
  ++epoch_;
}

}  // namespace normlab
