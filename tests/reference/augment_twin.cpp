// The operations as C functions for augment_twin.py, which builds this file into its own library.
#include <algorithm>

#include "experiments/lab/data/ops/autoaugment.h"
#include "experiments/lab/data/ops/color_jitter.h"
#include "experiments/lab/data/ops/randaugment.h"

namespace {

void in_place(std::uint8_t* pixels, int height, int width, auto&& change) {
  normlab::Image image;
  image.resize(height, width);
  std::copy_n(pixels, image.pixels.size(), image.pixels.begin());
  change(image);
  std::copy(image.pixels.begin(), image.pixels.end(), pixels);
}

template <class Config>
Config fixed_policy(int dialect, int interpolation, const int* fill) {
  Config config;
  config.dialect = static_cast<decltype(config.dialect)>(dialect);
  config.interpolation = static_cast<normlab::ResizeMethod>(interpolation);
  config.fill = {fill[0], fill[1], fill[2]};
  return config;
}

normlab::RandAugmentConfig config_of(int dialect, int increasing) {
  normlab::RandAugmentConfig config;
  config.dialect = static_cast<normlab::RandAugmentDialect>(dialect);
  config.increasing = increasing != 0;
  config.interpolation = normlab::ResizeMethod::bicubic;  // each operation brings its own
  return config;
}

}  // namespace

extern "C" {

/// `dialect`, `op` and `interpolation` are places in their enums; `fill` has three values; `corner` is that of a cutout.
void twin_randaugment(int dialect, int increasing, int op, double argument, int interpolation, const int* fill,
                      const int* corner, std::uint8_t* pixels, int height, int width) {
  normlab::RandAugmentConfig config = config_of(dialect, increasing);
  config.fill = {fill[0], fill[1], fill[2]};
  const normlab::RandAugment augment(config);
  normlab::OpScratch scratch;
  in_place(pixels, height, width, [&](normlab::Image& image) {
    augment.run({static_cast<normlab::AugmentOp>(op), argument, static_cast<normlab::ResizeMethod>(interpolation),
                 corner[0], corner[1]},
                image, scratch);
  });
}

void twin_autoaugment(int dialect, int op, int magnitude, int negative, int interpolation, const int* fill,
                      std::uint8_t* pixels, int height, int width) {
  const normlab::AutoAugment augment(fixed_policy<normlab::AutoAugmentConfig>(dialect, interpolation, fill));
  normlab::OpScratch scratch;
  in_place(pixels, height, width, [&](normlab::Image& image) {
    augment.run(augment.operation(static_cast<normlab::AugmentOp>(op), magnitude, negative != 0, height, width), image,
                scratch);
  });
}

void twin_trivialaugment(int op, int magnitude, int negative, int interpolation, const int* fill, std::uint8_t* pixels,
                         int height, int width) {
  const normlab::TrivialAugment augment(fixed_policy<normlab::TrivialAugmentConfig>(1, interpolation, fill));
  normlab::OpScratch scratch;
  in_place(pixels, height, width, [&](normlab::Image& image) {
    augment.run(augment.operation(static_cast<normlab::AugmentOp>(op), magnitude, negative != 0), image, scratch);
  });
}

double twin_argument(int dialect, int increasing, int op, double level, int negative, int height, int width) {
  const normlab::RandAugment augment(config_of(dialect, increasing));
  return augment.argument(static_cast<normlab::AugmentOp>(op), level, negative != 0, height, width);
}

void twin_jitter(const int* order, double brightness, double contrast, double saturation, double hue,
                 std::uint8_t* pixels, int height, int width) {
  normlab::DrawnJitter drawn{{}, brightness, contrast, saturation, hue};
  for (std::size_t i = 0; i < 4; ++i) drawn.order[i] = static_cast<normlab::JitterStep>(order[i]);
  in_place(pixels, height, width, [&](normlab::Image& image) { normlab::jitter(image, drawn); });
}

}  // extern "C"
