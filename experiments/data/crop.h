// The "inception crop": a box of random area and aspect becomes the training image. TensorFlow and torchvision draw
// it from different distributions.
#pragma once

#include <array>
#include <cstdint>

#include "experiments/data/draws.h"
#include "experiments/data/resize.h"

namespace normlab {

/// TensorFlow's sample_distorted_bounding_box without object boxes, as used by big_vision: the first box that fits, in
/// at most 100 attempts, otherwise the whole image. The aspect (width over height) is uniform in `aspect`. The height
/// is uniform among those whose box fits and covers a share of the image in `area`, so large areas are rarer than small
/// ones. The position never includes the last row and column, whose bound is exclusive in TensorFlow. Arithmetic is in
/// float, as in TensorFlow. TensorFlow's own aspects are 0.75 to 1.33.
Box crop_box_tensorflow(std::int64_t height, std::int64_t width, const std::array<double, 2>& area,
                        const std::array<double, 2>& aspect, const AugmentDraws& draws);

/// RandomResizedCrop of torchvision and timm: the first box that fits, in at most 10 attempts. The share of the image
/// is uniform in `area`, the logarithm of the aspect is uniform, and the position is arbitrary. If none fits: the
/// largest central box with an allowed aspect.
Box crop_box_torchvision(std::int64_t height, std::int64_t width, const std::array<double, 2>& area,
                         const std::array<double, 2>& aspect, const AugmentDraws& draws);

}  // namespace normlab
