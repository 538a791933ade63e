// Work memory of kernels: blocks in use at once are apart, and what was needed once is kept.
#include "core/cpu/scratch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

using namespace normlab::cpu;

namespace {

/// Blocks of growing sizes, each taken while those before are in use.
void nest(std::int64_t size, int depth) {
  const Scratch<std::int32_t> block(size);
  std::fill_n(block.begin(), size, std::int32_t(depth));
  {
    const Scratch<char> other(3 * size);
    std::fill_n(other.begin(), 3 * size, char(-1));
  }
  if (depth > 0) nest(2 * size + 1, depth - 1);
  CHECK(std::all_of(block.begin(), block.begin() + size, [&](std::int32_t value) { return value == depth; }));
  CHECK(reinterpret_cast<std::uintptr_t>(block.begin()) % 64 == 0);
}

}  // namespace

TEST_CASE("scratch: blocks in use at once are apart, while the stack grows and afterwards") {
  std::thread([] {
    nest(5, 8);
    nest(5, 8);
    nest(5, 12);
  }).join();
}

TEST_CASE("scratch: what any thread needed is kept, and another takes it over") {
  std::thread([] { nest(5000, 8); }).join();
  const std::uint64_t before = scratch_growths();
  std::thread([] {
    match_scratch();
    nest(5000, 8);
  }).join();
  CHECK(scratch_growths() == before);
}

TEST_CASE("scratch: a block of no values is null") {
  const Scratch<double> none(0);
  CHECK(none.begin() == nullptr);
}
