// The settings that each library's RandAugment supports.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "experiments/lab/descriptor/config.h"

namespace normlab {

struct RandAugmentProblem {
  std::string_view key;
  std::string what;
};

/// The first setting that the dialect does not support. torchvision's magnitude is an integer from 0 to 30;
/// big_vision's is at most 20 (where Posterize keeps all 8 bits). Geometric operations are nearest (torchvision),
/// bilinear, bicubic, or a random choice of the latter two (timm, which must state its choice). fill is three values.
std::optional<RandAugmentProblem> problem_of(const RandAugmentConfig& config);

}  // namespace normlab
