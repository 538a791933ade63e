#include "experiments/lab/metrics/numpy_random.h"

#include <bit>

namespace normlab {

std::array<std::uint32_t, 8> numpy_seed_words(std::uint64_t seed) {
  constexpr std::uint32_t kHash = 0x931E8875, kHashOut = 0x58F38DED, kMixLeft = 0xCA01F9DD, kMixRight = 0x4973F715;
  std::uint32_t constant = 0x43B0D7E5;
  const auto hashed = [&](std::uint32_t value, std::uint32_t multiplier) {
    value ^= constant;
    constant *= multiplier;
    value *= constant;
    return value ^ value >> 16;
  };
  const std::uint32_t entropy[] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), 0, 0};
  std::array<std::uint32_t, 4> pool{};
  for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = hashed(entropy[i], kHash);
  for (std::size_t source = 0; source < pool.size(); ++source)
    for (std::size_t target = 0; target < pool.size(); ++target) {
      if (source == target) continue;
      const std::uint32_t mixed = kMixLeft * pool[target] - kMixRight * hashed(pool[source], kHash);
      pool[target] = mixed ^ mixed >> 16;
    }
  constant = 0x8B51F9DD;
  std::array<std::uint32_t, 8> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = hashed(pool[i % pool.size()], kHashOut);
  return words;
}

NumpyRandom::NumpyRandom(std::uint64_t seed) {
  const auto words = numpy_seed_words(seed);
  const auto wide = [&](std::size_t first) {
    const auto number = [&](std::size_t i) { return std::uint64_t(words[i]) | std::uint64_t(words[i + 1]) << 32; };
    return Wide(number(first)) << 64 | number(first + 2);
  };
  increment_ = wide(4) << 1 | 1;
  step();
  state_ += wide(0);
  step();
}

void NumpyRandom::step() {
  constexpr Wide kMultiplier = Wide(2549297995355413924U) << 64 | 4865540595714422341U;
  state_ = state_ * kMultiplier + increment_;
}

std::uint64_t NumpyRandom::next64() {
  step();
  return std::rotr(static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_),
                   static_cast<int>(state_ >> 122));
}

std::uint32_t NumpyRandom::next32() {
  if (has_upper_half_) {
    has_upper_half_ = false;
    return upper_half_;
  }
  const std::uint64_t number = next64();
  upper_half_ = static_cast<std::uint32_t>(number >> 32);
  has_upper_half_ = true;
  return static_cast<std::uint32_t>(number);
}

std::uint32_t NumpyRandom::at_most(std::uint32_t most) {
  if (most == 0) return 0;
  const std::uint32_t mask = ~std::uint32_t{0} >> std::countl_zero(most);
  while (true)
    if (const std::uint32_t number = next32() & mask; number <= most) return number;
}

}  // namespace normlab
