// Few-shot evaluation as Big Vision defines it (evaluators/fewshot_lsr.py): ridge regression of one-hot targets on the
// features of a few images per class. It judges a network's features without training.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace normlab {

/// Rows of `width` numbers, one row per image.
struct Features {
  std::size_t width = 0;
  std::vector<double> values{};
  std::size_t rows() const { return width == 0 ? 0 : values.size() / width; }
  std::span<const double> row(std::size_t i) const { return std::span(values).subspan(i * width, width); }
};

/// The first `shots` training images of each class in NumPy's permutation for `seed`, class after class. A class with
/// fewer images gives all. With more shots, the choice contains that with fewer.
std::vector<std::size_t> few_shot_choice(std::span<const std::int32_t> labels, std::int64_t classes, std::uint64_t seed,
                                         std::int64_t shots);

/// The classifier W [width + 1, classes] of standardised features with a constant one appended: W = (X'X + l2 I)^-1
/// X'Y, with targets 1 for the class and -1 elsewhere.
class FewShotClassifier {
 public:
  /// From training images with these labels, at least one. Features are standardised by their mean and by their
  /// standard deviation plus 1e-5.
  FewShotClassifier(const Features& train, std::span<const std::int32_t> labels, std::int64_t classes, double l2);

  const std::vector<double>& weights() const { return weights_; }
  /// [rows, classes].
  std::vector<double> scores(const Features& test) const;
  /// The class with the highest score of each image, the first of equals.
  std::vector<std::int32_t> predictions(const Features& test) const;

 private:
  std::vector<double> standardised(const Features& features) const;  // [rows, width + 1]
  std::size_t width_, classes_;
  std::vector<double> mean_, deviation_, weights_;
};

// --- numpy.random.default_rng(seed).permutation(n), bit for bit: choices of images that were published with NumPy (2.4)
// can be repeated. NumPy does not promise that later versions draw the same.

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
