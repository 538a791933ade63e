#include "experiments/lab/data/ops/color_jitter.h"

#include <algorithm>
#include <utility>

#include "experiments/lab/data/ops/tone.h"

namespace normlab {

DrawnJitter draw_jitter(const ColorJitterConfig& config, const AugmentDraws& draws) {
  DrawnJitter out;
  for (std::uint32_t i = 3; i > 0; --i)
    std::swap(out.order[i], out.order[draws.below(i + 1, DrawName::jitter_order, i)]);
  const auto factor = [&](double x, JitterStep step) {
    if (x == 0) return 1.0;
    return draws.uniform(std::max(0.0, 1 - x), 1 + x, DrawName::jitter_factor, static_cast<std::uint32_t>(step));
  };
  out.brightness = factor(config.brightness, JitterStep::brightness);
  out.contrast = factor(config.contrast, JitterStep::contrast);
  out.saturation = factor(config.saturation, JitterStep::saturation);
  if (config.hue > 0)
    out.hue =
        draws.uniform(-config.hue, config.hue, DrawName::jitter_factor, static_cast<std::uint32_t>(JitterStep::hue));
  return out;
}

void jitter(Image& image, const DrawnJitter& drawn) {
  for (const JitterStep step : drawn.order) {
    if (step == JitterStep::brightness && drawn.brightness != 1)
      brightness(image, static_cast<float>(drawn.brightness));
    else if (step == JitterStep::contrast && drawn.contrast != 1)
      contrast(image, static_cast<float>(drawn.contrast), PixelArithmetic::pillow);
    else if (step == JitterStep::saturation && drawn.saturation != 1)
      color(image, static_cast<float>(drawn.saturation), PixelArithmetic::pillow);
    else if (step == JitterStep::hue && drawn.hue != 0)
      hue(image, drawn.hue);
  }
}

void color_jitter(Image& image, const ColorJitterConfig& config, const AugmentDraws& draws) {
  if (config != ColorJitterConfig{}) jitter(image, draw_jitter(config, draws));
}

}  // namespace normlab
