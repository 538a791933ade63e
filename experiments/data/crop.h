// Which part of an image becomes the training image: the "inception crop", a box of drawn area and aspect. Two
// libraries draw it, and their boxes differ in law.
#pragma once

#include <array>
#include <cstdint>

#include "experiments/data/draws.h"
#include "experiments/data/resize.h"

namespace normlab {

/// TensorFlow's sample_distorted_bounding_box without object boxes, as big_vision crops: of at most 100 attempts the
/// first that fits. An aspect (width over height) uniform in `aspect`; then a height uniform among those whose box has
/// a share of the image in `area` and fits into it, so large areas are rarer than small ones; then a place, of which
/// the last row and column are never drawn (as in TensorFlow, whose bound is exclusive there). Arithmetic in float as
/// there. The whole image where no attempt fits. TensorFlow's own aspects are 0.75 to 1.33.
Box crop_box_tensorflow(std::int64_t height, std::int64_t width, const std::array<double, 2>& area,
                        const std::array<double, 2>& aspect, const AugmentDraws& draws);

/// torchvision's RandomResizedCrop, and timm's: of at most 10 attempts the first that fits. A share of the image
/// uniform in `area`, an aspect whose logarithm is uniform, any place. Where none fits, the largest box in the middle
/// whose aspect is allowed.
Box crop_box_torchvision(std::int64_t height, std::int64_t width, const std::array<double, 2>& area,
                         const std::array<double, 2>& aspect, const AugmentDraws& draws);

}  // namespace normlab
