#include "core/cpu/scratch.h"

#include <atomic>
#include <memory>
#include <vector>

namespace normlab::cpu {
namespace {

constexpr std::size_t kAlign = 64;

std::atomic<std::size_t> largest{0};
std::atomic<std::uint64_t> growths{0};

std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

struct AlignedBlock {
  explicit AlignedBlock(std::size_t bytes) : memory(bytes + kAlign) {}
  std::byte* begin() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    return reinterpret_cast<std::byte*>(aligned(address));
  }
  std::vector<std::byte> memory;
};

/// Blocks that do not fit lie beside the stack until it is empty, and then it grows.
struct Stack {
  std::size_t size = 0, used = 0, most = 0;
  AlignedBlock memory{0};
  std::vector<AlignedBlock> beside;

  void grow(std::size_t to) {
    if (to <= size) return;
    memory = AlignedBlock(size = to);
  }
};
Stack& stack() {
  thread_local Stack instance;
  return instance;
}

}  // namespace

void* detail::take_scratch(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  Stack& s = stack();
  const std::size_t at = s.used;
  s.used += aligned(bytes);
  if (s.used > s.most) s.most = s.used;
  return s.used <= s.size ? s.memory.begin() + at : s.beside.emplace_back(bytes).begin();
}

void detail::release_scratch(std::size_t bytes) {
  Stack& s = stack();
  s.used -= aligned(bytes);
  if (s.used > 0 || s.beside.empty()) return;
  s.beside.clear();
  s.grow(s.most);
  std::size_t known = largest;
  while (known < s.most && !largest.compare_exchange_weak(known, s.most)) {
  }
  if (known < s.most) ++growths;
}

std::uint64_t scratch_growths() { return growths; }

void match_scratch() { stack().grow(largest); }

}  // namespace normlab::cpu
