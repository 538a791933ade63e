// What is measured at a training's evaluations besides accuracy and loss.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/field.h"

namespace normlab {

/// Few-shot evaluation on the trial's own slices; off without shots. See experiments/lab/metrics/few_shot.h.
struct FewShotConfig {
  std::vector<std::int64_t> shots{};
  double l2 = 1024;
  std::vector<std::int64_t> seeds{0, 1, 2};
  bool operator==(const FewShotConfig&) const = default;
};
template <std::same_as<FewShotConfig> T>
constexpr auto rows_of(const T*) {
  constexpr When<T> kOn{[](const T& c) { return !c.shots.empty(); }, "without shots there is no few-shot evaluation"};
  return std::tuple{
      field("shots", &T::shots, "numbers of training images per class; each adds a metric such as eval/5shot_accuracy",
            kAtOnce),
      field("l2", &T::l2, "weight of the squared norm in the ridge regression", kPositive).when(kOn),
      field("seeds", &T::seeds, "NumPy seeds that choose the images; the metric is the mean", kFromZero).when(kOn)};
}

/// Segmentation of whole images in windows of the model's size.
struct SegmentEvalConfig {
  std::int64_t resize_to = 0, stride = 0;
  bool operator==(const SegmentEvalConfig&) const = default;
};
template <std::same_as<SegmentEvalConfig> T>
constexpr auto rows_of(const T*) {
  constexpr Range kSide{.low = 0, .high = 1 << 16};  // pixels
  return std::tuple{field("resize_to", &T::resize_to, "pixels of the shorter side; 0: the model's longer side", kSide),
                    field("stride", &T::stride, "pixels between two windows; 0: the window's side", kSide)};
}

/// What an evaluation of classes measures on request, besides accuracy and loss.
enum class EvalMetric : std::uint8_t { balanced_accuracy, top5_accuracy, per_class };
constexpr auto stated_words(EvalMetric) { return words<EvalMetric>("balanced_accuracy", "top5_accuracy", "per_class"); }

struct EvalConfig {
  FewShotConfig fewshot{};
  SegmentEvalConfig segment{};
  std::vector<std::string> templates{};
  std::int64_t train_images = 0;
  std::vector<EvalMetric> metrics{};  // no part of a trial's canonical form, since they change no training
  bool operator==(const EvalConfig&) const = default;
};
template <std::same_as<EvalConfig> T>
constexpr auto rows_of(const T*) {
  return std::tuple{
      field("fewshot", &T::fewshot,
            "accuracy of ridge regression on the features of a few images per class, as in Big Vision"),
      field("segment", &T::segment, "task segment: the windows that an image is evaluated in"),
      field("templates", &T::templates,
            "task contrast: the texts of a class, in which {} is its name, such as \"a photo of a "
            "{}.\"; the name alone if omitted"),
      field("train_images", &T::train_images,
            "training images, evenly spaced in the slice, whose accuracy is measured as well, without "
            "augmentation: train/accuracy; 0: none",
            kFromZero),
      field("metrics", &T::metrics,
            "more to measure at each evaluation of classes: balanced_accuracy (the mean of the classes' accuracies), "
            "top5_accuracy, per_class (at the end, eval/class_accuracy/CLASS); changes no result and no id")};
}

}  // namespace normlab
