// RandAugment (Cubuk et al. 2020) as three libraries have it: Big Vision, torchvision and timm. docs/augmentation.md
// says how they differ.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "experiments/data/draws.h"
#include "experiments/data/ops/affine.h"

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

/// An operation with all that was drawn for it.
struct DrawnOp {
  AugmentOp op = AugmentOp::identity;
  /// As the library hands it to the operation: degrees, shear, pixels (timm: a share of the side), factor, bits,
  /// threshold, addition, half a side. Operations without an argument have 0.
  double argument = 0;
  ResizeMethod interpolation = ResizeMethod::nearest;
  std::int64_t row = 0, column = 0;  // cutout: its middle
};

/// Draws operations and runs them. Safe for several threads, each with a scratch of its own.
class RandAugment {
 public:
  /// InputError: what problem_of() (descriptor/randaugment_rules.h) finds. Without a dialect there is nothing to apply,
  /// and apply() is the only function to call.
  explicit RandAugment(const RandAugmentConfig& config);

  /// `layers` operations one after the other, drawn with replacement. The size stays.
  void apply(Image& image, const AugmentDraws& draws, OpScratch& scratch) const;

  /// The operation of one layer for an image of this size; none where timm's probability leaves it out.
  std::optional<DrawnOp> draw(std::uint32_t layer, std::int64_t height, std::int64_t width,
                              const AugmentDraws& draws) const;
  void run(const DrawnOp& drawn, Image& image, OpScratch& scratch) const;

  /// In the order of the library's list; each comes up as often.
  std::span<const AugmentOp> operations() const;
  /// Whether half the draws negate the argument (timm, increasing: turn an enhancement's distance from 1 round).
  bool is_signed(AugmentOp op) const;
  /// What a level means for an image of this size.
  double argument(AugmentOp op, double level, bool negative, std::int64_t height, std::int64_t width) const;

 private:
  RandAugmentConfig config_;
  Fill fill_;
};

}  // namespace normlab
