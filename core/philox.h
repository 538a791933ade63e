// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).
// A number is a function of (counter, key) alone: the same bits on every machine, in any order, on host and device.
#pragma once

#include <array>
#include <cstdint>

#include "core/host_device.h"

namespace normlab {

/// Ten rounds over `counter` in place. Device code calls this form, hence no std::array.
NORMLAB_HOST_DEVICE constexpr void philox4x32(std::uint32_t (&counter)[4], std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    const std::uint32_t word1 = counter[1], word3 = counter[3];
    counter[0] = static_cast<std::uint32_t>(product1 >> 32) ^ word1 ^ key0;
    counter[1] = static_cast<std::uint32_t>(product1);
    counter[2] = static_cast<std::uint32_t>(product0 >> 32) ^ word3 ^ key1;
    counter[3] = static_cast<std::uint32_t>(product0);
    key0 += 0x9E3779B9u;  // golden ratio
    key1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
}

constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  std::uint32_t words[4] = {counter[0], counter[1], counter[2], counter[3]};
  philox4x32(words, key[0], key[1]);
  return {words[0], words[1], words[2], words[3]};
}

}  // namespace normlab
