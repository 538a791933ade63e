#include "experiments/lab/data/mix.h"

#include <algorithm>
#include <cmath>

#include "core/dtype.h"

namespace normlab {
namespace {

/// Pixels [low, high) of `side`, around `middle`.
struct Stretch {
  std::int64_t low, high;
};
Stretch stretch(MixDialect dialect, double ratio, std::int64_t side, std::int64_t middle) {
  std::int64_t before = 0, after = 0;
  if (dialect == MixDialect::timm) {
    const auto cut = static_cast<std::int64_t>(static_cast<double>(side) * ratio);
    before = cut / 2;
    after = (cut + 1) / 2;
  } else {
    before = after = static_cast<std::int64_t>(0.5 * ratio * static_cast<double>(side));
  }
  return {std::max<std::int64_t>(middle - before, 0), std::min(middle + after, side)};
}

/// `index` is the image's position, or 0 for a whole batch.
Mixing draw_one(const MixConfig& config, std::int64_t height, std::int64_t width, const AugmentDraws& draws,
                std::uint32_t index) {
  Mixing mixing;
  if (!draws.chance(config.probability, DrawName::mix_applied, index)) return mixing;
  mixing.cut =
      config.cutmix > 0 && (config.mixup == 0 || draws.chance(config.switch_probability, DrawName::mix_switch, index));
  const double p = mixing.cut ? config.cutmix : config.mixup;
  mixing.lambda = draws.beta(p, p, DrawName::mix_lambda, index);
  if (config.dialect == MixDialect::big_vision) mixing.lambda = std::max(mixing.lambda, 1 - mixing.lambda);
  if (!mixing.cut) return mixing;
  const auto words = draws.words(DrawName::mix_box, index);
  const double ratio = std::sqrt(1 - mixing.lambda);
  const auto [top, bottom] =
      stretch(config.dialect, ratio, height, below(words[0], static_cast<std::uint32_t>(height)));
  const auto [left, right] = stretch(config.dialect, ratio, width, below(words[1], static_cast<std::uint32_t>(width)));
  mixing.box = {top, left, bottom - top, right - left};
  mixing.lambda = 1 - double((bottom - top) * (right - left)) / double(height * width);
  return mixing;
}

}  // namespace

std::vector<Mixing> draw_mixing(const MixConfig& config, std::int64_t batch, std::int64_t height, std::int64_t width,
                                std::uint64_t seed, std::int64_t step, std::int64_t epoch) {
  std::vector<Mixing> mixings(static_cast<std::size_t>(batch));
  if (!mixes(config)) return mixings;
  if (config.off_epoch > 0 && epoch >= config.off_epoch) {
    for (std::int64_t i = 0; i < batch; ++i) mixings[static_cast<std::size_t>(i)].partner = i;
    return mixings;
  }
  const AugmentDraws draws(stream_key(seed, "mix", "batch"), step);
  if (config.scope == MixScope::batch)
    std::fill(mixings.begin(), mixings.end(), draw_one(config, height, width, draws, 0));
  for (std::int64_t i = 0; i < batch; ++i) {
    Mixing& mixing = mixings[static_cast<std::size_t>(i)];
    if (config.scope == MixScope::image) mixing = draw_one(config, height, width, draws, static_cast<std::uint32_t>(i));
    mixing.partner = config.dialect == MixDialect::timm ? batch - 1 - i : (i + batch - 1) % batch;
  }
  return mixings;
}

template <class A, class T>
void mix_image(const Mixing& mixing, const A* own, const A* partner, std::int64_t height, std::int64_t width,
               std::int64_t channels, T* out) {
  const std::int64_t values = height * width * channels;
  if (mixing.cut || mixing.lambda == 1) {
    for (std::int64_t i = 0; i < values; ++i) out[i] = T(own[i]);
    const Box& box = mixing.box;
    for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
      const std::int64_t first = (y * width + box.left) * channels;
      for (std::int64_t i = first; i < first + box.width * channels; ++i) out[i] = T(partner[i]);
    }
    return;
  }
  const A mine = A(mixing.lambda), other = A(1 - mixing.lambda);
  for (std::int64_t i = 0; i < values; ++i) out[i] = T(mine * own[i] + other * partner[i]);
}

template <class A>
void mix_targets(std::span<const Mixing> mixings, std::span<const std::int32_t> labels, std::int64_t classes,
                 double smoothing, Smoothing over, A* out) {
  // As the losses do (core/shared/losses.h).
  const bool others = over == Smoothing::others && smoothing > 0;
  const double off = smoothing / double(others ? classes - 1 : classes),
               on = others ? 1 - smoothing : 1 - smoothing + off;
  for (std::size_t i = 0; i < mixings.size(); ++i, out += classes) {
    const double lambda = mixings[i].lambda;
    const std::int32_t own = labels[i], partner = labels[static_cast<std::size_t>(mixings[i].partner)];
    for (std::int64_t c = 0; c < classes; ++c)
      out[c] = A(lambda * (c == own ? on : off) + (1 - lambda) * (c == partner ? on : off));
  }
}

#define NORMLAB_FOR(A)                                                                                       \
  template void mix_targets<A>(std::span<const Mixing>, std::span<const std::int32_t>, std::int64_t, double, \
                               Smoothing, A*);
NORMLAB_FOR(float)
NORMLAB_FOR(double)
#undef NORMLAB_FOR
#define NORMLAB_FOR(A, T) \
  template void mix_image<A, T>(const Mixing&, const A*, const A*, std::int64_t, std::int64_t, std::int64_t, T*);
NORMLAB_FOR(float, float)
NORMLAB_FOR(float, bf16)
NORMLAB_FOR(double, double)
#undef NORMLAB_FOR

}  // namespace normlab
