#include "core/arena.h"

#include <new>

namespace normlab {
namespace {
constexpr std::size_t kAlign = 64;
constexpr std::size_t kFirstChunk = std::size_t{2} << 20;
constexpr std::size_t kMaxChunk = std::size_t{64} << 20;
constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }
}  // namespace

Arena::Arena(Memory& memory) : memory_(memory), host_(memory.on_host() ? nullptr : std::make_unique<Arena>()) {}

Arena::~Arena() {
  for (const Chunk& chunk : chunks_) memory_.release(chunk.begin, chunk.bytes);
}

void Arena::add_chunk(std::size_t at_least) {
  // Chunks double in size, so that a small model takes little memory and a large one few mappings.
  const std::size_t wanted = chunks_.empty() ? kFirstChunk : std::min(2 * chunks_.back().bytes, kMaxChunk);
  const std::size_t bytes = round_up(std::max(at_least, wanted), kFirstChunk);
  char* begin = static_cast<char*>(memory_.allocate(bytes));
  memory_.end_use(begin, bytes);
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

void* Arena::allocate(std::size_t asked) {
  const std::size_t bytes = round_up(std::max<std::size_t>(asked, 1) + memory_.gap(), kAlign);
  void* block;
  if (FreeList* list = free_list(bytes); list && list->head) {
    Free* free = list->head;
    block = free->block;
    list->head = free->next;
    free->next = spare_;
    spare_ = free;
  } else {
    while (chunk_ < chunks_.size() && chunks_[chunk_].bytes - used_ < bytes) ++chunk_, used_ = 0;
    if (chunk_ == chunks_.size()) add_chunk(bytes), used_ = 0;
    block = chunks_[chunk_].begin + used_;
    used_ += bytes;
  }
  memory_.begin_use(block, asked);
  return block;
}

void Arena::release(void* block, std::size_t asked) {
  const std::size_t bytes = round_up(std::max<std::size_t>(asked, 1) + memory_.gap(), kAlign);
  memory_.end_use(block, asked);
  FreeList* list = free_list(bytes);
  if (!list) return;
  Free* free = spare_;
  if (free)
    spare_ = free->next;
  else
    free = static_cast<Free*>(allocate_host(sizeof(Free)));
  list->head = new (free) Free{list->head, block};
}

void Arena::grow_like(const Arena& other) {
  for (std::size_t i = chunks_.size(); i < other.chunks_.size(); ++i) {
    add_chunk(other.chunks_[i].bytes);
    memory_.touch(chunks_.back().begin, chunks_.back().bytes);
  }
  if (host_) host_->grow_like(*other.host_);
}

void Arena::rewind(const Mark& mark) {
  chunk_ = mark.chunk, used_ = mark.used;
  if (host_) host_->chunk_ = mark.host_chunk, host_->used_ = mark.host_used;
}

void Arena::reset() {
  for (std::size_t i = 0; i < chunks_.size() && i <= chunk_; ++i) memory_.end_use(chunks_[i].begin, chunks_[i].bytes);
  chunk_ = used_ = 0;
  free_ = {};
  spare_ = nullptr;
  ++epoch_;
  if (host_) host_->reset();
}

}  // namespace normlab
