// The operations that RandAugment, AutoAugment and TrivialAugment draw, as each implementation runs them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/words.h"
#include "experiments/lab/data/ops/affine.h"
#include "experiments/lab/data/ops/tone.h"

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
  /// In the implementation's units: degrees, shear, pixels or a share of the side, factor or its difference to 1, bits,
  /// threshold, addition, or pixels of a cutout. 0 without an argument.
  double argument = 0;
  ResizeMethod interpolation = ResizeMethod::nearest;
  std::int64_t row = 0, column = 0;  // cutout: its centre or corner
};

bool is_enhancement(AugmentOp op);
bool is_geometric(AugmentOp op);

/// towards: torchvision's whole pixels, to the right and down if positive; the others move the other way.
enum class ShiftUnit : std::uint8_t { pixels, share, towards };

/// What distinguishes the implementations.
struct OpStyle {
  PixelArithmetic arithmetic = PixelArithmetic::pillow;
  ShiftUnit shift = ShiftUnit::pixels;
  bool factor_less_one = false;     // the argument of an enhancement is its factor minus 1
  bool contrast_by_size = false;    // as Big Vision released it
  bool inverts_sum = false;         // solarize_add inverts values of at least 128 after the addition
  bool cutout_from_corner = false;  // and one pixel longer than its argument; else half a side from the centre
  Fill fill{}, rotation_fill{}, cutout_fill{};
};

void run(const DrawnOp& drawn, const OpStyle& style, Image& image, OpScratch& scratch);

/// The configured fill, or `own` if none is.
Fill fill_or(const std::vector<std::int64_t>& fill, Fill own);

/// The operations of RandAugment and TrivialAugment.
std::span<const AugmentOp> torchvision_operations();
OpStyle torchvision_style(const std::vector<std::int64_t>& fill);
/// The largest arguments of a policy.
struct TorchvisionRange {
  double shear, shift_x, shift_y, degrees, enhancement, bits;  // shifts in pixels; bits: of 8, how many are dropped
};
/// Of AutoAugment and RandAugment, for an image of this size.
TorchvisionRange torchvision_range(std::int64_t height, std::int64_t width);
double torchvision_argument(AugmentOp op, const TorchvisionRange& top, std::int64_t bins, std::int64_t index);
bool torchvision_is_signed(AugmentOp op);

}  // namespace normlab
