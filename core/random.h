// Every random number of an experiment is a function of (seed, stream, name, position, step). Nothing is drawn
// "next", so no draw depends on threads, workers, order or resuming. These functions must never change: tests hold
// known values.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/philox.h"

namespace normlab {

/// Philox key of one named stream. Trivially copyable, so that kernels take it by value.
struct StreamKey {
  std::uint32_t key[2];
  bool operator==(const StreamKey& other) const { return key[0] == other.key[0] && key[1] == other.key[1]; }
};

/// Key of the numbers called `name` ("blocks.0.attn.q.weight", an image key, ...) in `stream` ("init", "order",
/// "augment", "drop", ...). FNV-1a, 64 bits, over the seed's eight bytes (little-endian), the stream, one zero byte and
/// the name; then MurmurHash3's finaliser, because FNV mixes its last bytes badly. key[0] is the low half.
StreamKey stream_key(std::uint64_t seed, std::string_view stream, std::string_view name);

/// Four words at counter {position low, position high, step low, step high}.
inline std::array<std::uint32_t, 4> draw(StreamKey key, std::uint64_t position, std::uint64_t epoch_or_step = 0) {
  return philox4x32({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                     static_cast<std::uint32_t>(epoch_or_step), static_cast<std::uint32_t>(epoch_or_step >> 32)},
                    {key.key[0], key.key[1]});
}

/// A double in (0, 1): an odd multiple of 2^-53, made from the top 53 of 64 bits with the last one set. So it is exact,
/// never 0 or 1, and the grid is symmetric about one half.
constexpr double uniform(std::uint32_t hi, std::uint32_t lo) {
  const std::uint64_t bits = (std::uint64_t{hi} << 32 | lo) >> 11;
  return static_cast<double>(bits | 1) * 0x1p-53;
}

/// An integer in [0, n), n > 0, by multiply and shift. There is no rejection, so every draw costs one word; each
/// probability differs from 1/n by less than 2^-32.
NORMLAB_HOST_DEVICE constexpr std::uint32_t below(std::uint32_t word, std::uint32_t n) {
  return static_cast<std::uint32_t>((std::uint64_t{word} * n) >> 32);
}

/// Standard normal distribution function, accurate in both tails.
double normal_cdf(double x);

/// Its inverse for p in (0, 1): Wichura, Algorithm AS 241 (PPND16), Applied Statistics 37 (1988); relative error about
/// 1e-16. Antisymmetric to the bit about one half. Minus and plus infinity at 0 and 1, NaN outside.
double normal_quantile(double p);

/// The standard normal number at `position`.
double normal(StreamKey key, std::uint64_t position);

/// A standard normal truncated to [lo, hi] (in standard deviations, lo < hi), by the inverse distribution function: one
/// draw per value.
double truncated_normal(StreamKey key, std::uint64_t position, double lo, double hi);

/// Threshold for keep(): rate in [0, 1) times 2^32, rounded to the nearest integer (at most 2^32 - 1). The probability
/// of a drop is `rate` within 2^-33 (2^-32 at the upper end). Throws InputError outside [0, 1).
std::uint32_t drop_threshold(double rate);

/// False with probability threshold / 2^32.
NORMLAB_HOST_DEVICE constexpr bool keep(std::uint32_t word, std::uint32_t threshold) { return word >= threshold; }

/// A permutation of 0..n-1: the indices sorted by the 64-bit draw at (index, epoch), ties by index.
std::vector<std::int64_t> permutation(StreamKey key, std::int64_t n, std::uint64_t epoch);

}  // namespace normlab
