#include "core/cpu/scratch.h"

#include <array>
#include <atomic>
#include <vector>

namespace normlab::cpu {
namespace {

constexpr std::size_t kAlign = 64, kSlots = static_cast<std::size_t>(Slot::kCount);

std::array<std::atomic<std::size_t>, kSlots> largest{};
std::atomic<std::uint64_t> growths{0};

std::vector<std::byte>& buffer(std::size_t slot) {
  thread_local std::array<std::vector<std::byte>, kSlots> buffers;
  return buffers[slot];
}

}  // namespace

void* scratch_bytes(Slot slot, std::size_t bytes) {
  const auto number = static_cast<std::size_t>(slot);
  std::vector<std::byte>& memory = buffer(number);
  if (memory.size() < bytes + kAlign) {
    memory.resize(bytes + kAlign);
    std::size_t known = largest[number].load();
    while (known < memory.size() && !largest[number].compare_exchange_weak(known, memory.size())) {
    }
    if (known < memory.size()) ++growths;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  return reinterpret_cast<void*>((address + kAlign - 1) / kAlign * kAlign);
}

std::uint64_t scratch_growths() { return growths; }

void match_scratch() {
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    if (buffer(slot).size() < largest[slot]) buffer(slot).resize(largest[slot]);
}

}  // namespace normlab::cpu
