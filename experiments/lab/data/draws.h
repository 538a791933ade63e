// Random numbers for one image's augmentation, at named positions, so that no step shifts another step's draws.
#pragma once

#include <array>
#include <cstdint>

#include "core/random.h"

namespace normlab {

/// The purpose of a number. The values are permanent (tests check known numbers); append new ones at the end.
enum class DrawName : std::uint16_t {
  crop_and_flip = 0,  // words 0, 1, 2: row and column of a padded crop, flip
  crop_box = 1,       // index: attempt
  resize_method = 2,
  randaugment_operation = 3,  // index: layer, also for the next five
  randaugment_applied = 4,
  randaugment_magnitude = 5,
  randaugment_sign = 6,
  randaugment_interpolation = 7,
  randaugment_centre = 8,
  jitter_order = 9,
  jitter_factor = 10,  // index: brightness, contrast, saturation, hue
  erasing_applied = 11,
  erasing_box = 12,    // index: attempt
  erasing_noise = 13,  // index: value
  mix_applied = 14,
  mix_switch = 15,
  mix_lambda = 16,
  mix_box = 17,
  segment_scale = 18,
  segment_crop = 19,     // index: attempt, row and column
  distort_applied = 20,  // index: step, also for the next
  distort_amount = 21,
  autoaugment_policy = 22,
  autoaugment_applied = 23,  // index: place in the sub-policy, also for the next
  autoaugment_sign = 24,
  trivialaugment_operation = 25,
  trivialaugment_magnitude = 26,
  trivialaugment_sign = 27,
};

/// Draws of one image in one epoch; they depend only on (key, epoch, repeat, name, index). Trivially copyable. `repeat`
/// distinguishes the copies of an image in an epoch (repeated augmentation). A batch's own draws (mixing) use the
/// batch's key, with the step as the epoch.
class AugmentDraws {
 public:
  AugmentDraws(StreamKey key, std::int64_t epoch, std::int64_t repeat = 0)
      : key_(key), epoch_(static_cast<std::uint64_t>(epoch)), repeat_(static_cast<std::uint64_t>(repeat)) {}

  /// Four words of 32 bits. The functions below read the same words: use each (name, index) for one number or for four
  /// words. The first position of the image key is (crop_and_flip, 0) of repeat 0.
  std::array<std::uint32_t, 4> words(DrawName name, std::uint32_t index = 0) const {
    return draw(key_, repeat_ << 48 | std::uint64_t{static_cast<std::uint16_t>(name)} << 32 | index, epoch_);
  }

  /// In (0, 1), 53 bits, from words 0 and 1. `uniform(...) < p` has probability p within 2^-52: never for p = 0, always
  /// for p = 1.
  double uniform(DrawName name, std::uint32_t index = 0) const {
    const auto w = words(name, index);
    return normlab::uniform(w[0], w[1]);
  }
  double uniform(double low, double high, DrawName name, std::uint32_t index = 0) const {
    return low + (high - low) * uniform(name, index);
  }
  bool chance(double probability, DrawName name, std::uint32_t index = 0) const {
    return uniform(name, index) < probability;
  }

  /// In [0, n), n > 0, from words 0 and 1. Each probability differs from 1/n by less than 2^-64 n.
  std::uint32_t below(std::uint32_t n, DrawName name, std::uint32_t index = 0) const;

  /// Standard normal, by the inverse distribution function.
  double normal(DrawName name, std::uint32_t index = 0) const { return normal_quantile(uniform(name, index)); }

  /// Beta(a, b) in [0, 1] for positive a and b, by the inverse distribution function.
  double beta(double a, double b, DrawName name, std::uint32_t index = 0) const;

 private:
  StreamKey key_;
  std::uint64_t epoch_, repeat_;
};

/// The p-quantile of Beta(a, b), for p in (0, 1) and positive a and b. Relative error about 1e-12 for parameters up to
/// 100; results below 1e-300 have no relative accuracy.
double beta_quantile(double p, double a, double b);

}  // namespace normlab
