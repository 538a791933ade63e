// Work memory of kernels. Each thread has a stack of its own, grown on first use and kept.
#pragma once

#include <cstddef>
#include <cstdint>

namespace normlab::cpu {

namespace detail {
/// Null for no bytes. Blocks are released in the reverse order, with the same number of bytes.
void* take_scratch(std::size_t bytes);
void release_scratch(std::size_t bytes);
}  // namespace detail

/// `count` values of this thread until the end of the scope, aligned to a cache line, contents undefined. A fiber must
/// not hold them while it lets another one run.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(T)), values_(static_cast<T*>(detail::take_scratch(bytes_))) {}
  ~Scratch() { detail::release_scratch(bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  operator T*() const { return values_; }
  T* begin() const { return values_; }

 private:
  const std::size_t bytes_;
  T* const values_;
};

/// How often some thread needed more than any before.
std::uint64_t scratch_growths();
/// Grows this thread's stack to the largest of any thread. Which thread gets which work is chance, so any of them may
/// need that size in the next step.
void match_scratch();

}  // namespace normlab::cpu
