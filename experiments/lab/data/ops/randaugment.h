// RandAugment (Cubuk et al. 2020) as in Big Vision, torchvision and timm. docs/data.md describes the differences.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/words.h"
#include "experiments/lab/data/draws.h"
#include "experiments/lab/data/ops/affine.h"

namespace normlab {

enum class AugmentOp : std::uint8_t {
  identity,
  auto_contrast,
  equalize,
  invert,
  rotate,
  posterize,
  solarize,
  solarize_add,
  color,
  contrast,
  brightness,
  sharpness,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  cutout,
};
constexpr auto stated_words(AugmentOp) {
  return words<AugmentOp>("identity", "auto_contrast", "equalize", "invert", "rotate", "posterize", "solarize",
                          "solarize_add", "color", "contrast", "brightness", "sharpness", "shear_x", "shear_y",
                          "translate_x", "translate_y", "cutout");
}

/// An operation with its drawn parameters.
struct DrawnOp {
  AugmentOp op = AugmentOp::identity;
  /// In the library's units: degrees, shear, pixels (timm: a share of the side), factor, bits, threshold, addition, or
  /// half a side. 0 without an argument.
  double argument = 0;
  ResizeMethod interpolation = ResizeMethod::nearest;
  std::int64_t row = 0, column = 0;  // cutout: its centre
};

/// Thread-safe if each thread has its own scratch.
class RandAugment {
 public:
  /// InputError for what problem_of() (descriptor/augment_config.h) finds. Without a dialect nothing is applied, and
  /// only apply() may be called.
  explicit RandAugment(const RandAugmentConfig& config);

  /// Applies `layers` operations, drawn with replacement. Keeps the image size.
  void apply(Image& image, const AugmentDraws& draws, OpScratch& scratch) const;

  /// The operation of one layer; nullopt if timm's probability skips it.
  std::optional<DrawnOp> draw(std::uint32_t layer, std::int64_t height, std::int64_t width,
                              const AugmentDraws& draws) const;
  void run(const DrawnOp& drawn, Image& image, OpScratch& scratch) const;

  /// The library's list; all are equally likely.
  std::span<const AugmentOp> operations() const;
  /// Whether the argument is negated with probability one half (timm, increasing: mirrors an
  /// enhancement's factor about 1).
  bool is_signed(AugmentOp op) const;
  /// For an image of this size.
  double argument(AugmentOp op, double level, bool negative, std::int64_t height, std::int64_t width) const;

 private:
  RandAugmentConfig config_;
  Fill fill_;
};

}  // namespace normlab
