// How well classes are answered, and what an answer that ignores the image reaches.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace normlab {

inline constexpr std::size_t kTopAnswers = 5;

/// Whether `label` is among the first five classes by score. Of equal scores the lower class comes first, as it does
/// for the answer itself.
bool among_top_answers(std::span<const double> scores, std::int32_t label);

/// Counts of a slice's answers. Adding in another order changes no result.
class ClassScores {
 public:
  explicit ClassScores(std::int64_t classes)
      : images_(static_cast<std::size_t>(classes)), right_(static_cast<std::size_t>(classes)) {}
  void add(std::int32_t label, std::int32_t answer, bool among_top = false);

  /// Images of each class.
  const std::vector<std::int64_t>& images() const { return images_; }
  /// Shares; NaN without an image.
  double accuracy() const;
  double top5_accuracy() const;
  /// The mean of the classes' accuracies, over classes with an image (scikit-learn's balanced_accuracy_score).
  double balanced_accuracy() const;
  /// None for a class without an image.
  std::optional<double> accuracy_of(std::size_t a_class) const;

 private:
  std::vector<std::int64_t> images_, right_;
  std::int64_t among_top_ = 0;
};

/// What the same answer to every image reaches, from the number of images of each class: "accuracy" and
/// "balanced_accuracy" of the most frequent class, "top5_accuracy" of the five most frequent ones, and "loss", the mean
/// cross-entropy of the answer whose probabilities are the classes' shares. No other constant answer has a lower loss.
/// `sigmoid`: the loss is the sum over the classes of the binary cross-entropies. Empty without an image.
std::map<std::string, double> constant_answer(std::span<const std::int64_t> images, bool sigmoid);

/// The same for the pixels of a segmentation: "miou", "pixel_accuracy" and "loss".
std::map<std::string, double> constant_pixels(std::span<const std::int64_t> pixels);

}  // namespace normlab
