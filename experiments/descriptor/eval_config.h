// What is measured at a training's evaluations besides accuracy and loss.
#pragma once

#include <cstdint>
#include <vector>

#include "core/field.h"

namespace normlab {

/// Few-shot evaluation on the trial's own slices; off without shots. See experiments/statistics/few_shot.h.
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
      field<&T::shots>("numbers of training images per class; each adds a metric such as eval/5shot_accuracy", kAtOnce),
      field<&T::l2>("weight of the squared norm in the ridge regression", kPositive).when(kOn),
      field<&T::seeds>("NumPy seeds that choose the images; the metric is the mean", kFromZero).when(kOn)};
}

struct EvalConfig {
  FewShotConfig fewshot{};
  bool operator==(const EvalConfig&) const = default;
};
template <std::same_as<EvalConfig> T>
constexpr auto rows_of(const T*) {
  return std::tuple{
      field<&T::fewshot>("accuracy of ridge regression on the features of a few images per class, as in Big "
                         "Vision")};
}

}  // namespace normlab
