// In which order blocks, warps and lanes have their turns: what set_schedule() chooses.
#pragma once

#include <cstdint>
#include <vector>

namespace normlab::emulation {

/// The seed that was set last, at first NORMLAB_CUDA_SCHEDULE.
std::uint64_t current_schedule();

/// 0: everything in the order of its numbers.
void set_schedule(std::uint64_t seed);

/// Makes `order` a permutation of 0..n-1, n its length, for one seed, block (`serial`) and level.
void permute(std::vector<int>& order, std::uint64_t seed, std::uint32_t serial, std::uint32_t level);

}  // namespace normlab::emulation
