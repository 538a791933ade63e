// torchvision's ColorJitter for Pillow images.
#pragma once

#include <array>
#include <cstdint>

#include "experiments/lab/data/draws.h"
#include "experiments/lab/data/image.h"
#include "experiments/lab/descriptor/config.h"

namespace normlab {

enum class JitterStep : std::uint8_t { brightness, contrast, saturation, hue };

/// In this order. A factor of 1 (a hue of 0) disables its step.
struct DrawnJitter {
  std::array<JitterStep, 4> order{JitterStep::brightness, JitterStep::contrast, JitterStep::saturation,
                                  JitterStep::hue};
  double brightness = 1, contrast = 1, saturation = 1, hue = 0;
};

/// All orders are equally likely; factors are uniform in [max(0, 1 - x), 1 + x], hue in [-x, x].
DrawnJitter draw_jitter(const ColorJitterConfig& config, const AugmentDraws& draws);

void jitter(Image& image, const DrawnJitter& drawn);

/// Draws and applies. Does nothing if all four settings are 0.
void color_jitter(Image& image, const ColorJitterConfig& config, const AugmentDraws& draws);

}  // namespace normlab
