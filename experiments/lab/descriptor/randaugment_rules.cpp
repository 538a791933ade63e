#include "experiments/lab/descriptor/augment_config.h"

#include <cmath>

#include "core/error.h"

namespace normlab {

std::optional<RandAugmentProblem> problem_of(const RandAugmentConfig& c) {
  using Dialect = RandAugmentDialect;
  if (c.dialect == Dialect::none) return std::nullopt;
  if (c.dialect == Dialect::torchvision && (c.magnitude > 30 || std::trunc(c.magnitude) != c.magnitude))
    return {{"magnitude", concat("torchvision takes the index of one of 31 magnitudes, an integer from 0 to 30, got ",
                                 c.magnitude)}};
  if (c.dialect == Dialect::big_vision && c.magnitude > 20)
    return {{"magnitude", concat("big_vision's levels end at 20, got ", c.magnitude)}};
  const ResizeMethod method = c.interpolation;
  const bool timm = c.dialect == Dialect::timm;
  const bool known = method == ResizeMethod::bilinear || method == ResizeMethod::bicubic ||
                     method == (timm ? ResizeMethod::random : ResizeMethod::nearest);
  if (!known && c.dialect != Dialect::big_vision)
    return {
        {"interpolation", concat("the interpolation of geometric operations in ", word_of(c.dialect), " is ",
                                 timm ? "bilinear, bicubic or random (one of the two)" : "nearest, bilinear or bicubic",
                                 ", not ", word_of(method))}};
  if (!c.fill.empty() && c.fill.size() != 3)
    return {{"fill", concat("expected one value for each of 3 channels, got ", c.fill.size())}};
  return std::nullopt;
}

}  // namespace normlab
