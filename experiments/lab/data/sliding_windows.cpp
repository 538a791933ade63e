#include "experiments/lab/data/sliding_windows.h"

#include <algorithm>

#include "core/backend.h"

namespace normlab {

std::vector<std::int64_t> window_starts(std::int64_t size, std::int64_t window, std::int64_t stride) {
  std::vector<std::int64_t> starts;
  for (std::int64_t at = 0; at + window < size; at += stride) starts.push_back(at);
  starts.push_back(size - window);
  return starts;
}

std::int64_t scaled_side(const SegmentEvalConfig& settings, double scale, std::int64_t longer) {
  const std::int64_t side = settings.resize_to > 0 ? settings.resize_to : longer;
  return std::max(longer, static_cast<std::int64_t>(double(side) * scale));
}

std::vector<float> upsample(std::vector<float> values, ImageSize in, ImageSize out, std::int64_t classes) {
  if (in == out) return values;
  std::vector<float> resized(static_cast<std::size_t>(out.height * out.width * classes));
  cpu_backend().resample({1, in.height, in.width, classes, out.height, out.width, Resampling::bilinear},
                         Tensor(values.data(), {in.height * in.width, classes}, DType::f32),
                         Tensor(resized.data(), {out.height * out.width, classes}, DType::f32));
  return resized;
}

WindowMean::WindowMean(ImageSize size, std::int64_t classes)
    : size_(size),
      classes_(classes),
      sums_(static_cast<std::size_t>(size.height * size.width * classes)),
      counts_(static_cast<std::size_t>(size.height * size.width)) {}

void WindowMean::add(const Box& box, const std::vector<float>& values) {
  const float* from = values.data();
  for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
    float* to = sums_.data() + (y * size_.width + box.left) * classes_;
    for (std::int64_t i = 0; i < box.width * classes_; ++i) to[i] += *from++;
    for (std::int64_t x = 0; x < box.width; ++x) ++counts_[static_cast<std::size_t>(y * size_.width + box.left + x)];
  }
}

std::vector<float> WindowMean::take() {
  for (std::size_t i = 0; i < sums_.size(); ++i)
    sums_[i] /= static_cast<float>(counts_[i / static_cast<std::size_t>(classes_)]);
  return std::move(sums_);
}

}  // namespace normlab
