#include "experiments/lab/descriptor/augment_config.h"

#include <cmath>

#include "core/error.h"

namespace normlab {

namespace {

std::optional<PolicyProblem> problem_of_fill(const std::vector<std::int64_t>& fill) {
  if (fill.empty() || fill.size() == 3) return std::nullopt;
  return {{"fill", concat("expected one value for each of 3 channels, got ", fill.size())}};
}

std::optional<PolicyProblem> problem_of_interpolation(ResizeMethod method, std::string_view dialect, bool draws) {
  if (method == ResizeMethod::bilinear || method == ResizeMethod::bicubic ||
      method == (draws ? ResizeMethod::random : ResizeMethod::nearest))
    return std::nullopt;
  return {
      {"interpolation", concat("the interpolation of geometric operations in ", dialect, " is ",
                               draws ? "bilinear, bicubic or random (one of the two)" : "nearest, bilinear or bicubic",
                               ", not ", word_of(method))}};
}

template <class Dialect>
std::optional<PolicyProblem> problem_of_fixed(const FixedPolicyConfig<Dialect>& c) {
  if (c.dialect == Dialect::none) return std::nullopt;
  if (c.dialect == Dialect::torchvision)
    if (auto problem = problem_of_interpolation(c.interpolation, word_of(c.dialect), false)) return problem;
  return problem_of_fill(c.fill);
}

}  // namespace

std::optional<PolicyProblem> problem_of(const RandAugmentConfig& c) {
  using Dialect = RandAugmentDialect;
  if (c.dialect == Dialect::none) return std::nullopt;
  if (c.dialect == Dialect::torchvision && (c.magnitude > 30 || std::trunc(c.magnitude) != c.magnitude))
    return {{"magnitude", concat("torchvision takes the index of one of 31 magnitudes, an integer from 0 to 30, got ",
                                 c.magnitude)}};
  if (c.dialect == Dialect::big_vision && c.magnitude > 20)
    return {{"magnitude", concat("big_vision's levels end at 20, got ", c.magnitude)}};
  if (c.dialect == Dialect::ildoonee && c.magnitude > 30)
    return {{"magnitude", concat("ildoonee's levels end at 30, got ", c.magnitude)}};
  if (c.dialect == Dialect::torchvision || c.dialect == Dialect::timm)
    if (auto problem = problem_of_interpolation(c.interpolation, word_of(c.dialect), c.dialect == Dialect::timm))
      return problem;
  return problem_of_fill(c.fill);
}

std::optional<PolicyProblem> problem_of(const AutoAugmentConfig& c) { return problem_of_fixed(c); }
std::optional<PolicyProblem> problem_of(const TrivialAugmentConfig& c) { return problem_of_fixed(c); }

}  // namespace normlab
