#include "experiments/lab/data/ops/autoaugment.h"

#include <cmath>

#include "core/error.h"
#include "experiments/lab/descriptor/augment_config.h"

namespace normlab {
namespace {

using Op = AugmentOp;

/// Magnitudes of operations without an argument have no effect.
constexpr SubPolicy kCifar10[] = {
    {{{Op::invert, 0.1, 7}, {Op::contrast, 0.2, 6}}},
    {{{Op::rotate, 0.7, 2}, {Op::translate_x, 0.3, 9}}},
    {{{Op::sharpness, 0.8, 1}, {Op::sharpness, 0.9, 3}}},
    {{{Op::shear_y, 0.5, 8}, {Op::translate_y, 0.7, 9}}},
    {{{Op::auto_contrast, 0.5, 8}, {Op::equalize, 0.9, 2}}},
    {{{Op::shear_y, 0.2, 7}, {Op::posterize, 0.3, 7}}},
    {{{Op::color, 0.4, 3}, {Op::brightness, 0.6, 7}}},
    {{{Op::sharpness, 0.3, 9}, {Op::brightness, 0.7, 9}}},
    {{{Op::equalize, 0.6, 5}, {Op::equalize, 0.5, 1}}},
    {{{Op::contrast, 0.6, 7}, {Op::sharpness, 0.6, 5}}},
    {{{Op::color, 0.7, 7}, {Op::translate_x, 0.5, 8}}},
    {{{Op::equalize, 0.3, 7}, {Op::auto_contrast, 0.4, 8}}},
    {{{Op::translate_y, 0.4, 3}, {Op::sharpness, 0.2, 6}}},
    {{{Op::brightness, 0.9, 6}, {Op::color, 0.2, 8}}},
    {{{Op::solarize, 0.5, 2}, {Op::invert, 0.0, 3}}},
    {{{Op::equalize, 0.2, 0}, {Op::auto_contrast, 0.6, 0}}},
    {{{Op::equalize, 0.2, 8}, {Op::equalize, 0.6, 4}}},
    {{{Op::color, 0.9, 9}, {Op::equalize, 0.6, 6}}},
    {{{Op::auto_contrast, 0.8, 4}, {Op::solarize, 0.2, 8}}},
    {{{Op::brightness, 0.1, 3}, {Op::color, 0.7, 0}}},
    {{{Op::solarize, 0.4, 5}, {Op::auto_contrast, 0.9, 3}}},
    {{{Op::translate_y, 0.9, 9}, {Op::translate_y, 0.7, 9}}},
    {{{Op::auto_contrast, 0.9, 2}, {Op::solarize, 0.8, 3}}},
    {{{Op::equalize, 0.8, 8}, {Op::invert, 0.1, 3}}},
    {{{Op::translate_y, 0.7, 9}, {Op::auto_contrast, 0.9, 1}}},
};
constexpr std::int64_t kMagnitudes = 10, kTrivialMagnitudes = 31;

/// An entry of numpy.linspace(start, end, 10).
double numpy_linspace(double start, double end, std::int64_t index) {
  const double step = (end - start) / static_cast<double>(kMagnitudes - 1);
  return index == kMagnitudes - 1 ? end : static_cast<double>(index) * step + start;
}

double deepvoltaire_argument(AugmentOp op, std::int64_t index) {
  const auto up_to = [&](double end) { return numpy_linspace(0, end, index); };
  if (op == Op::shear_x || op == Op::shear_y) return up_to(0.3);
  if (op == Op::translate_x || op == Op::translate_y) return up_to(150.0 / 331.0);
  if (op == Op::rotate) return up_to(30);
  if (is_enhancement(op)) return up_to(0.9);
  if (op == Op::posterize) return std::nearbyint(numpy_linspace(8, 4, index));
  return op == Op::solarize ? numpy_linspace(256, 0, index) : 0;
}

template <class Config>
void require_valid(const Config& config, std::string_view key) {
  if (const auto problem = problem_of(config))
    throw InputError(concat("train.augment.", key, ".", problem->key, ": ", problem->what));
}

}  // namespace

AutoAugment::AutoAugment(const AutoAugmentConfig& config) : config_(config), style_(torchvision_style(config.fill)) {
  require_valid(config, "autoaugment");
  if (config.dialect != AutoAugmentDialect::deepvoltaire) return;
  constexpr Fill kGrey{128, 128, 128};
  style_.shift = ShiftUnit::share;
  style_.fill = fill_or(config.fill, kGrey);
  style_.rotation_fill = kGrey;  // whatever the fill of the others
}

std::span<const SubPolicy> AutoAugment::sub_policies() { return kCifar10; }

bool AutoAugment::is_signed(AugmentOp op) const {
  const bool one_way = op == Op::rotate && config_.dialect == AutoAugmentDialect::deepvoltaire;
  return torchvision_is_signed(op) && !one_way;
}

DrawnOp AutoAugment::operation(AugmentOp op, std::int64_t magnitude, bool negative, std::int64_t height,
                               std::int64_t width) const {
  const bool torchvision = config_.dialect == AutoAugmentDialect::torchvision;
  DrawnOp out{op, torchvision ? torchvision_argument(op, torchvision_range(height, width), kMagnitudes, magnitude)
                              : deepvoltaire_argument(op, magnitude)};
  if (negative) out.argument = -out.argument;
  const bool shear = op == Op::shear_x || op == Op::shear_y;
  out.interpolation = torchvision ? config_.interpolation : shear ? ResizeMethod::bicubic : ResizeMethod::nearest;
  return out;
}

std::array<std::optional<DrawnOp>, 2> AutoAugment::draw(std::int64_t height, std::int64_t width,
                                                        const AugmentDraws& draws) const {
  std::array<std::optional<DrawnOp>, 2> out;
  const SubPolicy& policy = kCifar10[draws.below(std::size(kCifar10), DrawName::autoaugment_policy)];
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    const auto [op, probability, magnitude] = policy[i];
    if (!draws.chance(probability, DrawName::autoaugment_applied, i)) continue;
    const bool negative = is_signed(op) && draws.chance(0.5, DrawName::autoaugment_sign, i);
    out[i] = operation(op, magnitude, negative, height, width);
  }
  return out;
}

void AutoAugment::apply(Image& image, const AugmentDraws& draws, OpScratch& scratch) const {
  if (config_.dialect == AutoAugmentDialect::none) return;
  for (const auto& drawn : draw(image.height, image.width, draws))
    if (drawn) run(*drawn, image, scratch);
}

TrivialAugment::TrivialAugment(const TrivialAugmentConfig& config)
    : config_(config), style_(torchvision_style(config.fill)) {
  require_valid(config, "trivialaugment");
}

DrawnOp TrivialAugment::operation(AugmentOp op, std::int64_t magnitude, bool negative) const {
  const double value = torchvision_argument(op, {0.99, 32, 32, 135, 0.99, 6}, kTrivialMagnitudes, magnitude);
  return {op, negative ? -value : value, config_.interpolation};
}

DrawnOp TrivialAugment::draw(const AugmentDraws& draws) const {
  const std::span<const AugmentOp> list = torchvision_operations();
  const AugmentOp op = list[draws.below(static_cast<std::uint32_t>(list.size()), DrawName::trivialaugment_operation)];
  const bool negative = torchvision_is_signed(op) && draws.chance(0.5, DrawName::trivialaugment_sign);
  return operation(op, draws.below(kTrivialMagnitudes, DrawName::trivialaugment_magnitude), negative);
}

void TrivialAugment::apply(Image& image, const AugmentDraws& draws, OpScratch& scratch) const {
  if (config_.dialect != TrivialAugmentDialect::none) run(draw(draws), image, scratch);
}

}  // namespace normlab
