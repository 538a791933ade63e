#include "experiments/lab/data/ops/randaugment.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "experiments/lab/descriptor/augment_config.h"

namespace normlab {
namespace {

using Op = AugmentOp;
using Dialect = RandAugmentDialect;

constexpr AugmentOp kBigVision[] = {Op::auto_contrast, Op::equalize,    Op::invert,  Op::rotate,
                                    Op::posterize,     Op::solarize,    Op::color,   Op::contrast,
                                    Op::brightness,    Op::sharpness,   Op::shear_x, Op::shear_y,
                                    Op::translate_x,   Op::translate_y, Op::cutout,  Op::solarize_add};
constexpr AugmentOp kTimm[] = {Op::auto_contrast, Op::equalize,     Op::invert,  Op::rotate,      Op::posterize,
                               Op::solarize,      Op::solarize_add, Op::color,   Op::contrast,    Op::brightness,
                               Op::sharpness,     Op::shear_x,      Op::shear_y, Op::translate_x, Op::translate_y};
constexpr AugmentOp kIldoonee[] = {Op::auto_contrast, Op::equalize,   Op::invert,       Op::rotate,
                                   Op::posterize,     Op::solarize,   Op::solarize_add, Op::color,
                                   Op::contrast,      Op::brightness, Op::sharpness,    Op::shear_x,
                                   Op::shear_y,       Op::cutout,     Op::translate_x,  Op::translate_y};

constexpr double kTimmTop = 10;  // levels are out of 10, and timm clips them to it
constexpr std::int64_t kTorchvisionBins = 31;

OpStyle style_of(const RandAugmentConfig& config) {
  OpStyle style;
  if (config.dialect == Dialect::torchvision) return torchvision_style(config.fill);
  if (config.dialect == Dialect::big_vision) {
    style.arithmetic = PixelArithmetic::tensorflow;
    style.contrast_by_size = !config.repaired;
    style.fill = fill_or(config.fill, {128, 128, 128});
  } else if (config.dialect == Dialect::timm) {
    style.shift = ShiftUnit::share;
    style.fill = fill_or(config.fill, {124, 116, 104});  // ImageNet's mean, times 255
  } else {
    style.inverts_sum = style.cutout_from_corner = true;
    style.fill = fill_or(config.fill, {0, 0, 0});
  }
  style.rotation_fill = style.cutout_fill = style.fill;
  if (config.dialect == Dialect::ildoonee) style.cutout_fill = {125, 123, 114};
  return style;
}

/// Levels are out of 30, and shifts in pixels. Unlike the other dialects it neither rounds nor clips thresholds.
double ildoonee_argument(AugmentOp op, double level) {
  const double share = level / 30;
  if (op == Op::rotate) return share * 30;
  if (op == Op::shear_x || op == Op::shear_y) return share * 0.3;
  if (op == Op::translate_x || op == Op::translate_y) return share * 100;
  if (op == Op::posterize) return std::max(1.0, std::trunc(share * 4));
  if (op == Op::solarize) return share * 256;
  if (op == Op::solarize_add) return share * 110;
  if (op == Op::cutout) return share * 40;
  return is_enhancement(op) ? share * (1.9 - 0.1) + 0.1 : 0;
}

/// Levels are out of ten. Shifts are in pixels in Big Vision and a share of the side in timm.
double argument_of_ten(const RandAugmentConfig& config, AugmentOp op, double level, bool negative) {
  const bool timm = config.dialect == Dialect::timm, increasing = timm && config.increasing;
  const double share = (timm ? std::clamp(level, 0.0, kTimmTop) : level) / kTimmTop;
  if (op == Op::rotate) return share * 30;
  if (op == Op::shear_x || op == Op::shear_y) return share * 0.3;
  if (op == Op::translate_x || op == Op::translate_y) return share * (timm ? 0.45 : 100);
  if (op == Op::posterize) return increasing ? 4 - std::trunc(share * 4) : std::trunc(share * 4);
  if (op == Op::solarize) {
    const double threshold = std::trunc(share * 256);
    // Big Vision as released compares it with 8-bit pixels, so 256 acts as 0.
    if (!timm && !config.repaired) return std::fmod(threshold, 256);
    return increasing ? 256 - std::min(256.0, threshold) : std::min(256.0, threshold);
  }
  if (op == Op::solarize_add) return timm ? std::min(128.0, std::trunc(share * 110)) : std::trunc(share * 110);
  if (op == Op::cutout) return std::trunc(share * 40);
  if (!is_enhancement(op)) return 0;
  return increasing ? std::max(0.1, 1 + (negative ? -1 : 1) * (share * 0.9)) : share * 1.8 + 0.1;
}

}  // namespace

RandAugment::RandAugment(const RandAugmentConfig& config) : config_(config), style_(style_of(config)) {
  if (const auto problem = problem_of(config))
    throw InputError(concat("train.augment.randaugment.", problem->key, ": ", problem->what));
}

std::span<const AugmentOp> RandAugment::operations() const {
  if (config_.dialect == Dialect::torchvision) return torchvision_operations();
  if (config_.dialect == Dialect::big_vision) return kBigVision;
  if (config_.dialect == Dialect::ildoonee) return kIldoonee;
  return kTimm;
}

bool RandAugment::is_signed(AugmentOp op) const {
  const bool enhancements =
      config_.dialect == Dialect::torchvision || (config_.dialect == Dialect::timm && config_.increasing);
  return is_geometric(op) || (enhancements && is_enhancement(op));
}

double RandAugment::argument(AugmentOp op, double level, bool negative, std::int64_t height, std::int64_t width) const {
  double value = 0;
  if (config_.dialect == Dialect::torchvision)
    value =
        torchvision_argument(op, torchvision_range(height, width), kTorchvisionBins, static_cast<std::int64_t>(level));
  else if (config_.dialect == Dialect::ildoonee)
    value = ildoonee_argument(op, level);
  else
    value = argument_of_ten(config_, op, level, negative);
  // For timm's enhancements, `negative` is already applied.
  const bool turned = config_.dialect == Dialect::timm && is_enhancement(op);
  return negative && !turned ? -value : value;
}

std::optional<DrawnOp> RandAugment::draw(std::uint32_t layer, std::int64_t height, std::int64_t width,
                                         const AugmentDraws& draws) const {
  const bool timm = config_.dialect == Dialect::timm;
  if (timm && !draws.chance(config_.probability, DrawName::randaugment_applied, layer)) return std::nullopt;
  const std::span<const AugmentOp> list = operations();
  DrawnOp out;
  out.op = list[draws.below(static_cast<std::uint32_t>(list.size()), DrawName::randaugment_operation, layer)];
  double level = config_.magnitude;
  if (timm && config_.magnitude_std > 0)
    level += config_.magnitude_std * draws.normal(DrawName::randaugment_magnitude, layer);
  const bool negative = is_signed(out.op) && draws.chance(0.5, DrawName::randaugment_sign, layer);
  out.argument = argument(out.op, level, negative, height, width);
  out.interpolation = config_.interpolation;
  if (out.interpolation == ResizeMethod::random) {
    out.interpolation =
        draws.chance(0.5, DrawName::randaugment_interpolation, layer) ? ResizeMethod::bilinear : ResizeMethod::bicubic;
  }
  if (out.op == Op::cutout && config_.dialect == Dialect::ildoonee) {
    // numpy.random.uniform(side), whose first argument is the lower bound: from the side's end down to 1.
    const auto corner = [&](std::int64_t side, std::uint32_t index) {
      const double middle = draws.uniform(static_cast<double>(side), 1, DrawName::randaugment_centre, index);
      return static_cast<std::int64_t>(std::max(0.0, middle - out.argument / 2));
    };
    out.row = corner(height, 2 * layer);
    out.column = corner(width, 2 * layer + 1);
  } else if (out.op == Op::cutout) {
    out.row = draws.below(static_cast<std::uint32_t>(height), DrawName::randaugment_centre, 2 * layer);
    out.column = draws.below(static_cast<std::uint32_t>(width), DrawName::randaugment_centre, 2 * layer + 1);
  }
  return out;
}

void RandAugment::apply(Image& image, const AugmentDraws& draws, OpScratch& scratch) const {
  if (config_.dialect == Dialect::none) return;
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const auto drawn = draw(static_cast<std::uint32_t>(layer), image.height, image.width, draws);
    if (drawn) run(*drawn, image, scratch);
  }
}

}  // namespace normlab
