// Geometric operations: each pixel of the result is looked up in the image, in the coordinates and the arithmetic of
// Pillow or of TensorFlow, to the bit.
#pragma once

#include "experiments/data/image.h"
#include "experiments/data/ops/scratch.h"
#include "experiments/descriptor/config.h"

namespace normlab {

/// Pixel (x, y) of the result is the image at (a x + b y + c, d x + e y + f).
struct AffineMap {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};

/// Pillow's Image.transform: x and y count from the border to a pixel's middle. `method` nearest (in fixed point of 16
/// bits, as Pillow), bilinear, or bicubic (a = -1) in double, whose result is truncated. InputError for others.
void pillow_affine(Image& image, const AffineMap& map, ResizeMethod method, const Fill& fill, OpScratch& scratch);

/// Pillow's Image.rotate: counter-clockwise about the middle of the image.
AffineMap pillow_rotation(double degrees, std::int64_t height, std::int64_t width);

/// TensorFlow's projective transform, nearest: x and y count pixels, in float, halves away from zero.
void tensorflow_affine(Image& image, const AffineMap& map, const Fill& fill, OpScratch& scratch);

/// Big Vision's: clockwise about the middle of the corner pixels' middles.
AffineMap tensorflow_rotation(double degrees, std::int64_t height, std::int64_t width);

}  // namespace normlab
