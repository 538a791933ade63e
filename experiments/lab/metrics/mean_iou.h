// The confusion of pixel classes, and what segmentation reports of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ignored_label.h"

namespace normlab {

class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes)
      : classes_(classes), counts_(static_cast<std::size_t>(classes * classes)) {}
  /// One pixel whose label is `label`, a class or kIgnoredLabel, and for which `predicted` was answered.
  void add(std::int32_t label, std::int32_t predicted) {
    if (label != kIgnoredLabel) ++counts_[static_cast<std::size_t>(label * classes_ + predicted)];
  }
  /// [classes, classes], label by prediction.
  const std::vector<std::int64_t>& counts() const { return counts_; }
  /// Labelled pixels, and those of each class.
  std::int64_t total() const;
  std::vector<std::int64_t> labelled() const;
  /// Intersection over union of each class; NaN for a class that is in no label and no prediction.
  std::vector<double> iou() const;
  /// Their mean without NaN, and the share of pixels that are right; NaN without a labelled pixel.
  double mean_iou() const;
  double pixel_accuracy() const;

 private:
  std::int64_t classes_;
  std::vector<std::int64_t> counts_;
};

}  // namespace normlab
