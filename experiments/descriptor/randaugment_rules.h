// What a library's RandAugment can be asked for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "experiments/descriptor/config.h"

namespace normlab {

struct RandAugmentProblem {
  std::string_view key;
  std::string what;
};

/// The first setting that its dialect has not: torchvision's magnitude is a whole number from 0 to 30, big_vision's is
/// at most 20 (where Posterize has all 8 bits); geometric operations are nearest (torchvision), bilinear, bicubic, or
/// one of the latter two, drawn (timm, which must say which); fill is three values.
std::optional<RandAugmentProblem> problem_of(const RandAugmentConfig& config);

}  // namespace normlab
