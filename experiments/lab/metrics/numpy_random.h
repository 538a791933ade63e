// numpy.random.default_rng(seed).permutation(n), bit for bit: choices of images that were published with NumPy (2.4)
// can be repeated. NumPy does not promise that later versions draw the same.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace normlab {

/// NumPy's SeedSequence(seed).generate_state(8).
std::array<std::uint32_t, 8> numpy_seed_words(std::uint64_t seed);

/// PCG64 (O'Neill 2014: 128-bit state, output XSL-RR), seeded as NumPy seeds it.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint64_t seed);
  std::uint64_t next64();
  /// Shuffles like Generator.permutation; calls continue one stream.
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i-- > 1;) std::swap(values[i], values[at_most(static_cast<std::uint32_t>(i))]);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  void step();
  std::uint32_t next32();
  /// Uniform in 0 to `most`, by rejection under the smallest mask of ones.
  std::uint32_t at_most(std::uint32_t most);

  Wide state_ = 0, increment_ = 0;
  std::uint32_t upper_half_ = 0;  // of the last 64-bit number
  bool has_upper_half_ = false;
};

}  // namespace normlab
