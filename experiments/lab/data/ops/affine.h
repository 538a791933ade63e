// Geometric operations in the coordinates and arithmetic of Pillow or TensorFlow, bit for bit.
#pragma once

#include "experiments/lab/data/image.h"
#include "experiments/lab/data/ops/scratch.h"
#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// Output pixel (x, y) is the image at (a x + b y + c, d x + e y + f).
struct AffineMap {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};

/// Pillow's Image.transform: x and y refer to pixel centres, measured from the image border. `method` is nearest
/// (16-bit fixed point, as in Pillow), bilinear, or bicubic (a = -1) in double with truncation. InputError for others.
void pillow_affine(Image& image, const AffineMap& map, ResizeMethod method, const Fill& fill, OpScratch& scratch);

/// Pillow's Image.rotate: counter-clockwise about the image centre.
AffineMap pillow_rotation(double degrees, std::int64_t height, std::int64_t width);

/// TensorFlow's projective transform, nearest: x and y are pixel indices in float, rounded half away from zero.
void tensorflow_affine(Image& image, const AffineMap& map, const Fill& fill, OpScratch& scratch);

/// Big Vision's rotation: clockwise about the midpoint of the corner pixels' centres.
AffineMap tensorflow_rotation(double degrees, std::int64_t height, std::int64_t width);

/// Interpolates for pillow_affine() by Pillow's bilinear and bicubic sampling. Neighbours outside the image repeat its border pixels.
void sample_pillow(Image& image, const AffineMap& map, ResizeMethod method, const Fill& fill, OpScratch& scratch);

}  // namespace normlab
