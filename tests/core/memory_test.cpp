#include "core/memory.h"

#include <doctest/doctest.h>

#include <initializer_list>

using namespace normlab;

TEST_CASE("host memory: the peak holds what was released, and ends with the next one") {
  constexpr std::size_t kBytes = std::size_t{64} << 20, kSlack = std::size_t{8} << 20;
  Memory& memory = host_memory();
  memory.restart_peak();
  const std::size_t before = memory.peak();
  if (before == 0) {
    MESSAGE("skipped: this system does not let a process restart its peak memory");
    return;
  }
  void* const block = memory.allocate(kBytes);
  CHECK(memory.peak() < before + kSlack);  // mapped, but not used
  memory.touch(block, kBytes);
  memory.release(block, kBytes);
  CHECK(memory.peak() >= before + kBytes - kSlack);
  CHECK(memory.peak() < before + kBytes + kSlack);
  memory.restart_peak();
  CHECK(memory.peak() < before + kSlack);
}
