// Evaluation of an image in windows of the network's size (Segmenter, Strudel et al. 2021, section 4.1).
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/lab/data/image.h"
#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// Where windows begin along an axis: at 0, stride, 2 stride, ... while they end before the border, and one that ends
/// at it. size >= window.
std::vector<std::int64_t> window_starts(std::int64_t size, std::int64_t window, std::int64_t stride);

/// Pixels of the shorter side of an image at that scale; `longer`: the longer side of a window, which must fit.
std::int64_t scaled_side(const SegmentEvalConfig& settings, double scale, std::int64_t longer);

/// [in, classes] to [out, classes], bilinear with half-pixel centres and repeated borders.
std::vector<float> upsample(std::vector<float> values, ImageSize in, ImageSize out, std::int64_t classes);

/// The mean of overlapping windows.
class WindowMean {
 public:
  WindowMean(ImageSize size, std::int64_t classes);
  /// Values [box, classes].
  void add(const Box& box, const std::vector<float>& values);
  /// [size, classes]; every pixel must have been covered.
  std::vector<float> take();

 private:
  ImageSize size_;
  std::int64_t classes_;
  std::vector<float> sums_;
  std::vector<std::int32_t> counts_;  // of each pixel
};

}  // namespace normlab
