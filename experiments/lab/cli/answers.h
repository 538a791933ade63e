// What a classification answers for each image, as files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace normlab {

/// The largest probability of an image's classes, from their logits: that of the softmax, or of the class's own
/// sigmoid.
double largest_probability(std::span<const double> logits, bool sigmoid);

class Answers {
 public:
  /// `class_names` in the order of the labels.
  explicit Answers(std::vector<std::string> class_names) : class_names_(std::move(class_names)) {}
  void add(std::string file, std::optional<std::int32_t> label, std::int32_t answer, double probability);

  /// CSV (RFC 4180) with a header: "file,true_class,answer,probability", without labels "file,answer,probability".
  std::string predictions_csv() const;
  /// CSV: a row for each true class, a column for each answer, and the numbers of images.
  std::string confusion_csv() const;

 private:
  struct Answer {
    std::string file;
    std::optional<std::int32_t> label;
    std::int32_t answer;
    double probability;
  };
  const std::string& name(std::int32_t label) const { return class_names_[static_cast<std::size_t>(label)]; }
  std::vector<std::string> class_names_;
  std::vector<Answer> answers_;
};

}  // namespace normlab
