#include "experiments/lab/data/erasing.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace normlab {
namespace {
constexpr std::uint32_t kAttempts = 10;
}

Box erasing_box(const ErasingConfig& erasing, std::int64_t height, std::int64_t width, const AugmentDraws& draws) {
  if (erasing.dialect == ErasingDialect::none || !draws.chance(erasing.probability, DrawName::erasing_applied))
    return {};
  const double pixels = static_cast<double>(height * width);
  const double flat = std::log(erasing.aspect[0]), tall = std::log(erasing.aspect[1]);
  for (std::uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    const auto words = draws.words(DrawName::erasing_box, attempt);
    const double size = pixels * (erasing.area[0] + (erasing.area[1] - erasing.area[0]) * uniform(words[0], 0));
    const double ratio = std::exp(flat + (tall - flat) * uniform(words[1], 0));
    const std::int64_t h = std::lrint(std::sqrt(size * ratio)), w = std::lrint(std::sqrt(size / ratio));
    if (h >= height || w >= width) continue;
    return {below(words[2], static_cast<std::uint32_t>(height - h + 1)),
            below(words[3], static_cast<std::uint32_t>(width - w + 1)), h, w};
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
    patch[i] = static_cast<T>(normal_quantile(uniform(words[i % 4], 0)));
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
