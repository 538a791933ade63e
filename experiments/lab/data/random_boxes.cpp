#include "experiments/lab/data/random_boxes.h"

#include <algorithm>
#include <cmath>

namespace normlab {
namespace {

constexpr std::uint32_t kTensorflowAttempts = 100, kTorchvisionAttempts = 10, kErasingAttempts = 10;

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

Box erasing_box(const ErasingConfig& erasing, std::int64_t height, std::int64_t width, const AugmentDraws& draws) {
  if (erasing.dialect == ErasingDialect::none || !draws.chance(erasing.probability, DrawName::erasing_applied))
    return {};
  const double pixels = static_cast<double>(height * width);
  const double flat = std::log(erasing.aspect[0]), tall = std::log(erasing.aspect[1]);
  for (std::uint32_t attempt = 0; attempt < kErasingAttempts; ++attempt) {
    const auto words = draws.words(DrawName::erasing_box, attempt);
    const double size = pixels * (erasing.area[0] + (erasing.area[1] - erasing.area[0]) * share(words[0]));
    const double ratio = std::exp(flat + (tall - flat) * share(words[1]));
    const std::int64_t h = rounded(std::sqrt(size * ratio)), w = rounded(std::sqrt(size / ratio));
    if (h >= height || w >= width) continue;
    return {place(words[2], height - h + 1), place(words[3], width - w + 1), h, w};
  }
  return {};
}

template <class T>
void draw_patch(const ErasingConfig& erasing, const Box& box, std::int64_t channels, const AugmentDraws& draws,
                std::vector<T>& patch) {
  patch.assign(static_cast<std::size_t>(box.height * box.width * channels), static_cast<T>(erasing.value));
  if (erasing.fill == ErasingFill::constant) return;
  // Four numbers per draw: 32 bits reach 6.2 standard deviations.
  std::array<std::uint32_t, 4> words{};
  const std::size_t drawn = erasing.fill == ErasingFill::pixel ? patch.size() : static_cast<std::size_t>(channels);
  for (std::size_t i = 0; i < std::min(drawn, patch.size()); ++i) {
    if (i % 4 == 0) words = draws.words(DrawName::erasing_noise, static_cast<std::uint32_t>(i / 4));
    patch[i] = static_cast<T>(normal_quantile(share(words[i % 4])));
  }
  for (std::size_t i = drawn; i < patch.size(); ++i) patch[i] = patch[i - drawn];
}

template <class T>
void put_patch(const std::vector<T>& patch, const Box& box, std::int64_t image_width, std::int64_t channels, T* image) {
  const std::int64_t row = box.width * channels;
  for (std::int64_t y = 0; y < box.height; ++y)
    std::copy_n(patch.data() + y * row, row, image + ((box.top + y) * image_width + box.left) * channels);
}

#define NORMLAB_FOR(T)                                                                                               \
  template void draw_patch<T>(const ErasingConfig&, const Box&, std::int64_t, const AugmentDraws&, std::vector<T>&); \
  template void put_patch<T>(const std::vector<T>&, const Box&, std::int64_t, std::int64_t, T*);
NORMLAB_FOR(float)
NORMLAB_FOR(double)
#undef NORMLAB_FOR

}  // namespace normlab
