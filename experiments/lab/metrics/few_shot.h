// Few-shot evaluation as Big Vision defines it (evaluators/fewshot_lsr.py): ridge regression of one-hot targets on the
// features of a few images per class. It judges a network's features without training.
#pragma once

#include <cstdint>
#include <span>
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

}  // namespace normlab
