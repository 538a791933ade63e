#include "cuda/slabs.h"

#include <algorithm>

namespace normlab::NORMLAB_CUDA_NAMESPACE {

void* Slabs::take(std::size_t place, std::size_t asked, FunctionRef<void*(std::size_t)> allocate) {
  // As core/memory.h promises, and at least as CUDA's own blocks.
  constexpr std::size_t kLarge = std::size_t{2} << 20, kSmall = 512;
  const std::size_t alignment = asked >= kLarge ? kLarge : kSmall;
  const std::size_t bytes = (asked + alignment - 1) / alignment * alignment;
  auto block =
      std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.part == bytes && !b.taken[place]; });
  if (block == blocks_.end())
    block = blocks_.insert(blocks_.end(),
                           {static_cast<char*>(allocate(places_ * bytes)), bytes, std::vector<bool>(places_)});
  block->taken[place] = true;
  return block->begin + place * bytes;
}

std::pair<void*, std::size_t> Slabs::give(const void* part) {
  const auto* const at = static_cast<const char*>(part);
  const auto block = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const Block& b) { return at >= b.begin && at < b.begin + places_ * b.part; });
  if (block == blocks_.end()) return {};
  block->taken[static_cast<std::size_t>(at - block->begin) / block->part] = false;
  if (std::any_of(block->taken.begin(), block->taken.end(), [](bool taken) { return taken; })) return {};
  const std::pair<void*, std::size_t> whole{block->begin, places_ * block->part};
  blocks_.erase(block);
  return whole;
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
