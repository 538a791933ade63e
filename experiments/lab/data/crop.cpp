#include "experiments/lab/data/crop.h"

#include <algorithm>
#include <cmath>

namespace normlab {
namespace {

constexpr std::uint32_t kTensorflowAttempts = 100, kTorchvisionAttempts = 10;

/// 32 bits are enough for pixel counts, so an attempt needs only one draw.
double share(std::uint32_t word) { return uniform(word, 0); }

std::int64_t place(std::uint32_t word, std::int64_t places) { return below(word, static_cast<std::uint32_t>(places)); }

/// Half to even, as lrintf and Python's round do.
std::int64_t rounded(float value) { return std::lrint(value); }
std::int64_t rounded(double value) { return std::lrint(value); }

/// False if the box does not fit.
bool attempt_tensorflow(std::int64_t image_height, std::int64_t image_width, const std::array<double, 2>& area,
                        float aspect, const std::array<std::uint32_t, 4>& words, Box& box) {
  const auto part = [&](double relative) {
    return static_cast<float>(relative) * static_cast<float>(image_width) * static_cast<float>(image_height);
  };
  const float least = part(area[0]), most = part(area[1]);
  const auto width_of = [&](std::int64_t height) { return rounded(static_cast<float>(height) * aspect); };
  std::int64_t height = rounded(std::sqrt(least / aspect)), highest = rounded(std::sqrt(most / aspect));
  if (width_of(highest) > image_width) {
    constexpr double kBelowHalf = 0.5 - 1e-7;
    highest = static_cast<std::int64_t>((static_cast<double>(image_width) + kBelowHalf) / static_cast<double>(aspect));
    if (width_of(highest) > image_width) --highest;
  }
  highest = std::min(highest, image_height);
  height = std::min(height, highest);
  height += place(words[1], highest - height + 1);
  // Rounding may leave the area range: adjust by one row.
  const auto covered = [&] { return static_cast<float>(height * width_of(height)); };
  if (covered() < least) ++height;
  if (covered() > most) --height;
  const std::int64_t width = width_of(height);
  if (covered() < least || covered() > most || height > image_height || width > image_width || height < 1 || width < 1)
    return false;
  box.height = height;
  box.width = width;
  box.top = height < image_height ? place(words[2], image_height - height) : 0;
  box.left = width < image_width ? place(words[3], image_width - width) : 0;
  return true;
}

}  // namespace

Box crop_box_tensorflow(std::int64_t height, std::int64_t width, const std::array<double, 2>& area,
                        const std::array<double, 2>& aspect, const AugmentDraws& draws) {
  Box box{0, 0, height, width};
  for (std::uint32_t attempt = 0; attempt < kTensorflowAttempts; ++attempt) {
    const auto words = draws.words(DrawName::crop_box, attempt);
    const auto drawn = static_cast<float>(aspect[0] + (aspect[1] - aspect[0]) * share(words[0]));
    if (attempt_tensorflow(height, width, area, drawn, words, box)) return box;
  }
  return box;
}

Box crop_box_torchvision(std::int64_t height, std::int64_t width, const std::array<double, 2>& area,
                         const std::array<double, 2>& aspect, const AugmentDraws& draws) {
  const double pixels = static_cast<double>(height * width);
  const double narrow = std::log(aspect[0]), wide = std::log(aspect[1]);
  Box box;
  for (std::uint32_t attempt = 0; attempt < kTorchvisionAttempts; ++attempt) {
    const auto words = draws.words(DrawName::crop_box, attempt);
    const double size = pixels * (area[0] + (area[1] - area[0]) * share(words[0]));
    const double ratio = std::exp(narrow + (wide - narrow) * share(words[1]));
    box.width = rounded(std::sqrt(size * ratio));
    box.height = rounded(std::sqrt(size / ratio));
    if (box.width < 1 || box.width > width || box.height < 1 || box.height > height) continue;
    box.top = place(words[2], height - box.height + 1);
    box.left = place(words[3], width - box.width + 1);
    return box;
  }
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  box.height = height;
  box.width = width;
  if (ratio < aspect[0]) box.height = rounded(static_cast<double>(width) / aspect[0]);
  if (ratio > aspect[1]) box.width = rounded(static_cast<double>(height) * aspect[1]);
  box.height = std::clamp<std::int64_t>(box.height, 1, height);
  box.width = std::clamp<std::int64_t>(box.width, 1, width);
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

}  // namespace normlab
