#include "experiments/lab/data/ops/operation.h"

#include <algorithm>
#include <cmath>

namespace normlab {
namespace {

using Op = AugmentOp;

constexpr AugmentOp kTorchvision[] = {
    Op::identity, Op::shear_x,  Op::shear_y,   Op::translate_x, Op::translate_y, Op::rotate,        Op::brightness,
    Op::color,    Op::contrast, Op::sharpness, Op::posterize,   Op::solarize,    Op::auto_contrast, Op::equalize};

/// An entry of torch.linspace(start, end, bins): in float, from the nearer end.
double torch_linspace(double start, double end, std::int64_t bins, std::int64_t index) {
  const auto first = static_cast<float>(start), last = static_cast<float>(end);
  const double step = static_cast<double>((last - first) / static_cast<float>(bins - 1));
  const double value = index < bins / 2 ? static_cast<double>(first) + step * static_cast<double>(index)
                                        : static_cast<double>(last) - step * static_cast<double>(bins - 1 - index);
  return static_cast<double>(static_cast<float>(value));
}

}  // namespace

bool is_enhancement(AugmentOp op) {
  return op == Op::color || op == Op::contrast || op == Op::brightness || op == Op::sharpness;
}
bool is_geometric(AugmentOp op) {
  return op == Op::rotate || op == Op::shear_x || op == Op::shear_y || op == Op::translate_x || op == Op::translate_y;
}

void run(const DrawnOp& drawn, const OpStyle& style, Image& image, OpScratch& scratch) {
  const PixelArithmetic arithmetic = style.arithmetic;
  const bool tensorflow = arithmetic == PixelArithmetic::tensorflow;
  const double value = drawn.argument;
  const auto factor = static_cast<float>(style.factor_less_one ? 1.0 + value : value);
  const auto transform = [&](const AffineMap& map, const Fill& fill) {
    if (tensorflow)
      tensorflow_affine(image, map, fill, scratch);
    else
      pillow_affine(image, map, drawn.interpolation, fill, scratch);
  };
  const auto shift = [&](std::int64_t side) {
    return style.shift == ShiftUnit::towards ? -std::trunc(value)
           : style.shift == ShiftUnit::share ? value * static_cast<double>(side)
                                             : value;
  };
  const auto pixels = static_cast<std::int64_t>(value);
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
      if (!style.inverts_sum) return solarize_add(image, static_cast<int>(value));
      solarize_add(image, static_cast<int>(value), 256);
      return solarize(image, 128);
    case Op::color:
      return color(image, factor, arithmetic);
    case Op::contrast:
      if (style.contrast_by_size) return contrast_by_size(image, factor);
      return contrast(image, factor, arithmetic);
    case Op::brightness:
      return brightness(image, factor);
    case Op::sharpness:
      return sharpness(image, factor, arithmetic, scratch);
    case Op::rotate:
      return transform(tensorflow ? tensorflow_rotation(value, image.height, image.width)
                                  : pillow_rotation(value, image.height, image.width),
                       style.rotation_fill);
    case Op::shear_x:
      return transform({.b = value}, style.fill);
    case Op::shear_y:
      return transform({.d = value}, style.fill);
    case Op::translate_x:
      return transform({.c = shift(image.width)}, style.fill);
    case Op::translate_y:
      return transform({.f = shift(image.height)}, style.fill);
    case Op::cutout:
      if (style.cutout_from_corner) return cutout(image, drawn.row, drawn.column, pixels + 1, style.cutout_fill);
      return cutout(image, drawn.row - pixels, drawn.column - pixels, 2 * pixels, style.cutout_fill);
  }
}

Fill fill_or(const std::vector<std::int64_t>& fill, Fill own) {
  if (fill.size() == own.size())
    for (std::size_t c = 0; c < own.size(); ++c)
      own[c] = static_cast<std::uint8_t>(std::clamp<std::int64_t>(fill[c], 0, 255));
  return own;
}

std::span<const AugmentOp> torchvision_operations() { return kTorchvision; }

OpStyle torchvision_style(const std::vector<std::int64_t>& fill) {
  const Fill color = fill_or(fill, {0, 0, 0});
  return {.shift = ShiftUnit::towards, .factor_less_one = true, .fill = color, .rotation_fill = color};
}

TorchvisionRange torchvision_range(std::int64_t height, std::int64_t width) {
  const double share = 150.0 / 331.0;
  return {0.3, share * static_cast<double>(width), share * static_cast<double>(height), 30, 0.9, 4};
}

double torchvision_argument(AugmentOp op, const TorchvisionRange& top, std::int64_t bins, std::int64_t index) {
  const auto up_to = [&](double end) { return torch_linspace(0, end, bins, index); };
  if (op == Op::shear_x || op == Op::shear_y) return up_to(top.shear);
  if (op == Op::translate_x) return up_to(top.shift_x);
  if (op == Op::translate_y) return up_to(top.shift_y);
  if (op == Op::rotate) return up_to(top.degrees);
  if (is_enhancement(op)) return up_to(top.enhancement);
  if (op == Op::posterize)
    return 8 - std::nearbyint(static_cast<double>(index) / (static_cast<double>(bins - 1) / top.bits));
  return op == Op::solarize ? 255 * torch_linspace(1, 0, bins, index) : 0;
}

bool torchvision_is_signed(AugmentOp op) { return is_geometric(op) || is_enhancement(op); }

}  // namespace normlab
