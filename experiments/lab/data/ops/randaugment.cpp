#include "experiments/lab/data/ops/randaugment.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "experiments/lab/data/ops/tone.h"
#include "experiments/lab/descriptor/augment_config.h"

namespace normlab {
namespace {

using Op = AugmentOp;
using Dialect = RandAugmentDialect;

constexpr AugmentOp kTorchvision[] = {
    Op::identity, Op::shear_x,  Op::shear_y,   Op::translate_x, Op::translate_y, Op::rotate,        Op::brightness,
    Op::color,    Op::contrast, Op::sharpness, Op::posterize,   Op::solarize,    Op::auto_contrast, Op::equalize};
constexpr AugmentOp kBigVision[] = {Op::auto_contrast, Op::equalize,    Op::invert,  Op::rotate,
                                    Op::posterize,     Op::solarize,    Op::color,   Op::contrast,
                                    Op::brightness,    Op::sharpness,   Op::shear_x, Op::shear_y,
                                    Op::translate_x,   Op::translate_y, Op::cutout,  Op::solarize_add};
constexpr AugmentOp kTimm[] = {Op::auto_contrast, Op::equalize,     Op::invert,  Op::rotate,      Op::posterize,
                               Op::solarize,      Op::solarize_add, Op::color,   Op::contrast,    Op::brightness,
                               Op::sharpness,     Op::shear_x,      Op::shear_y, Op::translate_x, Op::translate_y};

constexpr double kTimmTop = 10;  // levels are out of 10, and timm clips them to it
constexpr std::int64_t kTorchvisionBins = 31;

bool is_enhancement(AugmentOp op) {
  return op == Op::color || op == Op::contrast || op == Op::brightness || op == Op::sharpness;
}
bool is_geometric(AugmentOp op) {
  return op == Op::rotate || op == Op::shear_x || op == Op::shear_y || op == Op::translate_x || op == Op::translate_y;
}

Fill fill_of(const RandAugmentConfig& config) {
  if (config.fill.size() == Fill{}.size()) {
    Fill fill{};
    for (std::size_t c = 0; c < fill.size(); ++c)
      fill[c] = static_cast<std::uint8_t>(std::clamp<std::int64_t>(config.fill[c], 0, 255));
    return fill;
  }
  if (config.dialect == Dialect::big_vision) return {128, 128, 128};
  if (config.dialect == Dialect::torchvision) return {0, 0, 0};
  return {124, 116, 104};  // ImageNet's mean, times 255
}

/// An entry of torch.linspace(start, end, 31): in float, from the nearer end.
double linspace(double start, double end, std::int64_t index) {
  const auto first = static_cast<float>(start), last = static_cast<float>(end);
  const double step = static_cast<double>((last - first) / static_cast<float>(kTorchvisionBins - 1));
  const double value = index < kTorchvisionBins / 2
                           ? static_cast<double>(first) + step * static_cast<double>(index)
                           : static_cast<double>(last) - step * static_cast<double>(kTorchvisionBins - 1 - index);
  return static_cast<double>(static_cast<float>(value));
}

double torchvision_argument(AugmentOp op, double level, std::int64_t height, std::int64_t width) {
  const auto index = static_cast<std::int64_t>(level);
  const auto up_to = [&](double top) { return linspace(0, top, index); };
  if (op == Op::shear_x || op == Op::shear_y) return up_to(0.3);
  if (op == Op::translate_x) return up_to(150.0 / 331.0 * static_cast<double>(width));
  if (op == Op::translate_y) return up_to(150.0 / 331.0 * static_cast<double>(height));
  if (op == Op::rotate) return up_to(30);
  if (is_enhancement(op)) return up_to(0.9);
  if (op == Op::posterize) return 8 - std::nearbyint(level / (static_cast<double>(kTorchvisionBins - 1) / 4));
  return op == Op::solarize ? 255 * linspace(1, 0, index) : 0;
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

RandAugment::RandAugment(const RandAugmentConfig& config) : config_(config), fill_(fill_of(config)) {
  if (const auto problem = problem_of(config))
    throw InputError(concat("train.augment.randaugment.", problem->key, ": ", problem->what));
}

std::span<const AugmentOp> RandAugment::operations() const {
  if (config_.dialect == Dialect::torchvision) return kTorchvision;
  if (config_.dialect == Dialect::big_vision) return kBigVision;
  return kTimm;
}

bool RandAugment::is_signed(AugmentOp op) const {
  const bool enhancements =
      config_.dialect == Dialect::torchvision || (config_.dialect == Dialect::timm && config_.increasing);
  return is_geometric(op) || (enhancements && is_enhancement(op));
}

double RandAugment::argument(AugmentOp op, double level, bool negative, std::int64_t height, std::int64_t width) const {
  const double value = config_.dialect == Dialect::torchvision ? torchvision_argument(op, level, height, width)
                                                               : argument_of_ten(config_, op, level, negative);
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
  if (out.op == Op::cutout) {
    out.row = draws.below(static_cast<std::uint32_t>(height), DrawName::randaugment_centre, 2 * layer);
    out.column = draws.below(static_cast<std::uint32_t>(width), DrawName::randaugment_centre, 2 * layer + 1);
  }
  return out;
}

void RandAugment::run(const DrawnOp& drawn, Image& image, OpScratch& scratch) const {
  const bool big_vision = config_.dialect == Dialect::big_vision, torchvision = config_.dialect == Dialect::torchvision;
  const PixelArithmetic arithmetic = big_vision ? PixelArithmetic::tensorflow : PixelArithmetic::pillow;
  const double value = drawn.argument;
  const auto factor = static_cast<float>(torchvision ? 1.0 + value : value);
  const auto transform = [&](const AffineMap& map) {
    if (big_vision)
      tensorflow_affine(image, map, fill_, scratch);
    else
      pillow_affine(image, map, drawn.interpolation, fill_, scratch);
  };
  /// torchvision shifts by whole pixels, with positive values to the right and down; the others use the opposite sign.
  const auto shift = [&](std::int64_t side) {
    return torchvision ? -std::trunc(value) : big_vision ? value : value * static_cast<double>(side);
  };
  switch (drawn.op) {
    case Op::identity:
      return;
    case Op::auto_contrast:
      return auto_contrast(image, arithmetic);
    case Op::equalize:
      return equalize(image);
    case Op::invert:
      return invert(image);
    case Op::posterize:
      return posterize(image, static_cast<int>(value), arithmetic);
    case Op::solarize:
      return solarize(image, value);
    case Op::solarize_add:
      return solarize_add(image, static_cast<int>(value));
    case Op::color:
      return color(image, factor, arithmetic);
    case Op::contrast:
      if (big_vision && !config_.repaired) return contrast_by_size(image, factor);
      return contrast(image, factor, arithmetic);
    case Op::brightness:
      return brightness(image, factor);
    case Op::sharpness:
      return sharpness(image, factor, arithmetic, scratch);
    case Op::rotate:
      return transform(big_vision ? tensorflow_rotation(value, image.height, image.width)
                                  : pillow_rotation(value, image.height, image.width));
    case Op::shear_x:
      return transform({.b = value});
    case Op::shear_y:
      return transform({.d = value});
    case Op::translate_x:
      return transform({.c = shift(image.width)});
    case Op::translate_y:
      return transform({.f = shift(image.height)});
    case Op::cutout:
      return cutout(image, drawn.row, drawn.column, static_cast<std::int64_t>(value), fill_);
  }
}

void RandAugment::apply(Image& image, const AugmentDraws& draws, OpScratch& scratch) const {
  if (config_.dialect == Dialect::none) return;
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const auto drawn = draw(static_cast<std::uint32_t>(layer), image.height, image.width, draws);
    if (drawn) run(*drawn, image, scratch);
  }
}

}  // namespace normlab
