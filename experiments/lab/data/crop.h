// The "inception crop": a box of random area and aspect. The distributions of TensorFlow and torchvision differ.
#pragma once

#include <array>
#include <cstdint>

#include "experiments/lab/data/draws.h"
#include "experiments/lab/data/resize.h"

namespace normlab {

/// TensorFlow's sample_distorted_bounding_box without object boxes, as in big_vision: the first box that fits in 100
/// attempts, else the whole image. The aspect (width over height) is uniform in `aspect`; the height is uniform among
/// those whose box fits with a share of the image in `area`, so large areas are rarer. Positions exclude the last row
/// and column, as in TensorFlow, whose bound is exclusive. Arithmetic is in float, as there. TensorFlow's own aspects
/// are 0.75 to 1.33.
Box crop_box_tensorflow(std::int64_t height, std::int64_t width, const std::array<double, 2>& area,
                        const std::array<double, 2>& aspect, const AugmentDraws& draws);

/// RandomResizedCrop of torchvision and timm: the first box that fits in 10 attempts, else the largest central box
/// with an allowed aspect. The share of the image is uniform in `area`, the logarithm of the aspect is uniform,
/// the position is arbitrary.
Box crop_box_torchvision(std::int64_t height, std::int64_t width, const std::array<double, 2>& area,
                         const std::array<double, 2>& aspect, const AugmentDraws& draws);

}  // namespace normlab
