// Operations on values in place: by value, colour, histogram or neighbours. Bit for bit in the arithmetic of Pillow
// (torchvision, timm) or TensorFlow (Big Vision).
#pragma once

#include <cstdint>

#include "experiments/lab/data/image.h"
#include "experiments/lab/data/ops/scratch.h"

namespace normlab {

enum class PixelArithmetic : std::uint8_t { pillow, tensorflow };

void invert(Image& image);
/// Keeps the upper `bits`, 0 to 8. TensorFlow limits the shift to 7, so 0 bits keep one; in Pillow they give black.
void posterize(Image& image, int bits, PixelArithmetic arithmetic);
/// Inverts values of at least `threshold`.
void solarize(Image& image, double threshold);
/// Adds `addition` to values below `threshold`, up to 255.
void solarize_add(Image& image, int addition, int threshold = 128);

/// Stretches each channel to 0..255; a constant channel is unchanged.
void auto_contrast(Image& image, PixelArithmetic arithmetic);
/// Equalises each channel's histogram, identically in both libraries.
void equalize(Image& image);

// Enhancements: degenerate + factor (image - degenerate) in float, clipped and truncated. Factor 1 is the identity.

/// Degenerate: black.
void brightness(Image& image, float factor);
/// Degenerate: each pixel's grey.
void color(Image& image, float factor, PixelArithmetic arithmetic);
/// Degenerate: the mean grey, rounded by Pillow, truncated by TensorFlow.
void contrast(Image& image, float factor, PixelArithmetic arithmetic);
/// Big Vision's contrast as released: the degenerate value is (number of pixels) / 256, at most 255.
void contrast_by_size(Image& image, float factor);
/// Degenerate: a 3x3 mean with centre weight 5, over 13, rounded by Pillow, truncated by TensorFlow. The border is
/// unchanged, as is an image with a side below 3 pixels.
void sharpness(Image& image, float factor, PixelArithmetic arithmetic, OpScratch& scratch);

/// Rotates the hue by `share` of the circle, -0.5 to 0.5, through Pillow's 8-bit HSV.
void hue(Image& image, double share);

/// A square of `side` pixels from (row, column) on, clipped to the image.
void cutout(Image& image, std::int64_t row, std::int64_t column, std::int64_t side, const Fill& fill);

}  // namespace normlab
