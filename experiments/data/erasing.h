// Random Erasing (Zhong et al. 2017): a box of a normalised image is blanked, as timm and torchvision do it.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/data/draws.h"
#include "experiments/data/resize.h"
#include "experiments/descriptor/config.h"

namespace normlab {

/// The box that an image of this size loses; empty (height 0) where it keeps all. Of at most 10 attempts the first
/// whose sides are both shorter than the image's: a share of the image uniform in `erasing.area`, an aspect (height
/// over width) whose logarithm is uniform. Both libraries draw it so; their ranges and fills differ.
Box erasing_box(const ErasingConfig& erasing, std::int64_t height, std::int64_t width, const AugmentDraws& draws);

/// What the box is filled with, [box.height, box.width, channels]: `erasing.value`, a standard normal number a channel,
/// or one a value, keyed by its place in the patch.
template <class T>
void draw_patch(const ErasingConfig& erasing, const Box& box, std::int64_t channels, const AugmentDraws& draws,
                std::vector<T>& patch);

/// Writes a patch into an image, `image_width` pixels wide.
template <class T>
void put_patch(const std::vector<T>& patch, const Box& box, std::int64_t image_width, std::int64_t channels, T* image);

}  // namespace normlab
