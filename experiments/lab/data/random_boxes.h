// Random boxes of an image: the "inception crop", whose distributions in TensorFlow and torchvision differ, and Random
// Erasing (Zhong et al. 2017), which blanks a box of a normalised image as timm and torchvision do.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "experiments/lab/data/draws.h"
#include "experiments/lab/data/resize.h"
#include "experiments/lab/descriptor/config.h"

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

/// The box to erase; height 0 for none. The first of at most 10 attempts whose sides are both shorter than the image's.
/// The share of the image is uniform in `erasing.area`, the logarithm of the aspect (height over width) is uniform.
/// Both libraries draw it so; their ranges and fills differ.
Box erasing_box(const ErasingConfig& erasing, std::int64_t height, std::int64_t width, const AugmentDraws& draws);

/// [box.height, box.width, channels]: `erasing.value`, a standard normal number per channel, or one per value, keyed by
/// its position in the patch.
template <class T>
void draw_patch(const ErasingConfig& erasing, const Box& box, std::int64_t channels, const AugmentDraws& draws,
                std::vector<T>& patch);

/// `image` is `image_width` pixels wide.
template <class T>
void put_patch(const std::vector<T>& patch, const Box& box, std::int64_t image_width, std::int64_t channels, T* image);

}  // namespace normlab
