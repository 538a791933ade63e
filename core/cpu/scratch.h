// Work memory of kernels, which holds nothing between calls. Each thread has its own, grown on first use and kept.
#pragma once

#include <cstddef>
#include <cstdint>

namespace normlab::cpu {

/// Each slot is one buffer at a time. `panel` belongs to product(), `product` to bf16_product().
enum class Slot : int { a, b, c, d, e, panel, product, kCount };

void* scratch_bytes(Slot slot, std::size_t bytes);

/// `count` values of this thread, aligned to a cache line, contents undefined.
template <class T>
T* scratch(Slot slot, std::int64_t count) {
  return static_cast<T*>(scratch_bytes(slot, static_cast<std::size_t>(count) * sizeof(T)));
}

/// How often some slot became larger than in any other thread.
std::uint64_t scratch_growths();
/// Grows every slot of this thread to its largest size in any thread. Which thread gets which work is chance, so any of
/// them may need that size in the next step.
void match_scratch();

}  // namespace normlab::cpu
