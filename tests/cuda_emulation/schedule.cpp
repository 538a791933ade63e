#include "tests/cuda_emulation/schedule.h"

#include <atomic>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "core/philox.h"

namespace normlab::emulation {
namespace {

std::uint64_t first_schedule() {
  const char* given = std::getenv("NORMLAB_CUDA_SCHEDULE");
  return given ? std::strtoull(given, nullptr, 10) : 0;
}
std::atomic<std::uint64_t> schedule{first_schedule()};

}  // namespace

std::uint64_t current_schedule() { return schedule; }
void set_schedule(std::uint64_t seed) { schedule = seed; }

void permute(std::vector<int>& order, std::uint64_t seed, std::uint32_t serial, std::uint32_t level) {
  std::iota(order.begin(), order.end(), 0);
  if (seed == 0) return;
  for (std::size_t i = order.size(); i > 1; --i) {
    const auto word = philox4x32({static_cast<std::uint32_t>(i), serial, level, 0},
                                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)})[0];
    std::swap(order[i - 1], order[(std::uint64_t{word} * i) >> 32]);
  }
}

}  // namespace normlab::emulation
