// Operations that change values where they are: by value, by the colour of the pixel, by the histogram, by the
// neighbours. In the arithmetic of Pillow (torchvision, timm) or that of TensorFlow (Big Vision), to the bit.
#pragma once

#include <cstdint>

#include "experiments/data/image.h"
#include "experiments/data/ops/scratch.h"

namespace normlab {

enum class PixelArithmetic : std::uint8_t { pillow, tensorflow };

void invert(Image& image);
/// Keeps the upper `bits`, 0 to 8. TensorFlow limits a shift to 7, so that 0 bits keep one there; Pillow gives black.
void posterize(Image& image, int bits, PixelArithmetic arithmetic);
/// Values from `threshold` on become 255 minus them.
void solarize(Image& image, double threshold);
/// Values below `threshold` grow by `addition`, to at most 255.
void solarize_add(Image& image, int addition, int threshold = 128);

/// Each channel stretched to 0..255; one that has a single value stays.
void auto_contrast(Image& image, PixelArithmetic arithmetic);
/// Each channel by its histogram; both libraries count alike.
void equalize(Image& image);

// Enhancements: degenerate + factor (image - degenerate) in float, clipped, truncated. Factor 1 leaves the image.

/// Degenerate: black.
void brightness(Image& image, float factor);
/// Degenerate: the grey of each pixel.
void color(Image& image, float factor, PixelArithmetic arithmetic);
/// Degenerate: the mean grey, rounded by Pillow, truncated by TensorFlow.
void contrast(Image& image, float factor, PixelArithmetic arithmetic);
/// The same as Big Vision released it: the degenerate image is (number of pixels) / 256, at most 255.
void contrast_by_size(Image& image, float factor);
/// Degenerate: a 3x3 mean with 5 in the middle, over 13, rounded by Pillow, truncated by TensorFlow. The border stays,
/// and so does an image of less than 3 pixels a side.
void sharpness(Image& image, float factor, PixelArithmetic arithmetic, OpScratch& scratch);

/// The hue turned by `share` of the circle, -0.5 to 0.5, through Pillow's HSV of 8 bits.
void hue(Image& image, double share);

/// A square of 2 `half` a side around (row, column), cut off at the border.
void cutout(Image& image, std::int64_t row, std::int64_t column, std::int64_t half, const Fill& fill);

}  // namespace normlab
