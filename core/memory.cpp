#include "core/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#include "core/memory_error.h"

namespace normlab {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kPage = 4096;  // the smallest page size; a huge page is resident after its first byte
constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// A trial is at fault if it asks for much. Under a limit on address space that leaves no small block, the limit is.
[[noreturn]] void refuse(std::size_t bytes) {
  constexpr std::size_t kSmall = 16;  // a block of at most this part of the limit
  const std::string what = concat("out of memory: cannot map ", bytes >> 20, " MB (", std::strerror(errno), "); ");
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes <= limit.rlim_cur / kSmall)
    throw EnvironmentError(what + "raise the limit on address space (ulimit -v), or use fewer workers");
  throw MemoryError(what + "use a smaller batch or fewer workers");
}

class HostMemory final : public Memory {
 public:
  void* allocate(std::size_t asked) override {
    const std::size_t bytes = round_up(asked, kHugePage);
    // Maps one huge page more than needed and unmaps the front and the tail around the aligned part.
    void* map = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) refuse(bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(map);
    const std::size_t front = round_up(address, kHugePage) - address;
    if (front) munmap(map, front);
    char* begin = static_cast<char*>(map) + front;
    if (front < kHugePage) munmap(begin + bytes, kHugePage - front);
    madvise(begin, bytes, MADV_HUGEPAGE);
    return begin;
  }
  void release(void* block, std::size_t bytes) noexcept override { munmap(block, round_up(bytes, kHugePage)); }
  void clear(void* block, std::size_t bytes) override { std::memset(block, 0, bytes); }
  void touch(void* block, std::size_t bytes) override {
    for (std::size_t at = 0; at < bytes; at += kPage) static_cast<char*>(block)[at] = 0;
  }
  bool on_host() const override { return true; }
  void restart_peak() override { restarted_ = bool(std::ofstream("/proc/self/clear_refs") << "5" << std::flush); }
  std::size_t peak() const override {
    std::ifstream status("/proc/self/status");
    std::string key;
    std::size_t kibibytes = 0;
    while (restarted_ && status >> key)
      if (key == "VmHWM:" && status >> kibibytes) return kibibytes << 10;
    return 0;
  }

 private:
  bool restarted_ = false;
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace normlab
