#include "experiments/descriptor/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/cpu/instruction_set.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace normlab {
namespace {

using State = std::array<std::uint32_t, 8>;
constexpr std::size_t kRounds = 64, kBytes = 64;  // of a block

// The first 32 bits of the fractional parts of the square and cube roots of the first primes.
constexpr State kFirst = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
alignas(16) constexpr std::array<std::uint32_t, kRounds> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const std::byte* bytes) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | std::uint32_t(bytes[i]);
  return word;
}

void add_blocks_portably(State& state, const std::byte* data, std::size_t blocks) {
  for (; blocks > 0; --blocks, data += kBytes) {
    std::array<std::uint32_t, kRounds> w;
    for (std::size_t t = 0; t < 16; ++t) w[t] = big_endian(data + 4 * t);
    for (std::size_t t = 16; t < kRounds; ++t) {
      const std::uint32_t x = w[t - 15], y = w[t - 2];
      w[t] = w[t - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3) + w[t - 7] +
             (std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t t = 0; t < kRounds; ++t) {
      const std::uint32_t first =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
      const std::uint32_t second =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const State change = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < state.size(); ++i) state[i] += change[i];
  }
}

#if defined(__x86_64__)
/// Four rounds at a time. The instructions want the state as (a, b, e, f) and (c, d, g, h).
__attribute__((target("sha,sse4.1"))) void add_blocks_by_instructions(State& state, const std::byte* data,
                                                                      std::size_t blocks) {
  const auto load = [](const void* from) __attribute__((target("sha,sse4.1"))) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  };
  const __m128i by_bytes = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i cdab = _mm_shuffle_epi32(load(state.data()), 0xB1),
                efgh = _mm_shuffle_epi32(load(state.data() + 4), 0x1B);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
  for (; blocks > 0; --blocks, data += kBytes) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (std::size_t i = 0; i < kRounds / 4; ++i) {
      __m128i& now = w[i % 4];
      if (i < 4) {
        now = _mm_shuffle_epi8(load(data + 16 * i), by_bytes);
      } else {
        const __m128i third = w[(i + 2) % 4], last = w[(i + 3) % 4];
        now = _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4]), _mm_alignr_epi8(last, third, 4));
        now = _mm_sha256msg2_epu32(now, last);
      }
      const __m128i sum = _mm_add_epi32(now, load(kRound.data() + 4 * i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data()), _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data() + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#endif

void add_blocks(State& state, const std::byte* data, std::size_t blocks, bool portable) {
#if defined(__x86_64__)
  static const bool has_instructions = cpu_has("sha");
  if (has_instructions && !portable) return add_blocks_by_instructions(state, data, blocks);
#endif
  add_blocks_portably(state, data, blocks);
}

}  // namespace

Sha256::Sha256(bool portable) : portable_(portable), state_(kFirst) {}

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  const std::size_t there = bytes_ % kBlock;
  bytes_ += bytes.size();
  if (there > 0) {
    const std::size_t taken = std::min(bytes.size(), kBlock - there);
    std::copy_n(bytes.begin(), taken, begun_.begin() + std::ptrdiff_t(there));
    bytes = bytes.subspan(taken);
    if (there + taken < kBlock) return *this;
    add_blocks(state_, begun_.data(), 1, portable_);
  }
  const std::size_t whole = bytes.size() / kBlock;
  add_blocks(state_, bytes.data(), whole, portable_);
  std::copy(bytes.begin() + std::ptrdiff_t(whole * kBlock), bytes.end(), begun_.begin());
  return *this;
}

Sha256& Sha256::update(std::string_view text) { return update(std::as_bytes(std::span(text))); }

std::string Sha256::hex() const {
  // The end: a bit, zeros up to a whole block, and in its last eight bytes the number of bits.
  Sha256 ended = *this;
  std::array<std::byte, 2 * kBlock> tail{std::byte{0x80}};
  const std::size_t zeros = (2 * kBlock - 9 - bytes_ % kBlock) % kBlock, length = 1 + zeros + 8;
  for (std::size_t i = 0; i < 8; ++i) tail[length - 1 - i] = std::byte(8 * bytes_ >> 8 * i);
  ended.update(std::span(tail).first(length));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint32_t word : ended.state_)
    for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[word >> shift & 15];
  return text;
}

}  // namespace normlab
