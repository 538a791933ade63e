// Random Erasing (Zhong et al. 2017): blanks a box of a normalised image, as timm and torchvision do.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/lab/data/draws.h"
#include "experiments/lab/data/resize.h"
#include "experiments/lab/descriptor/config.h"

namespace normlab {

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
