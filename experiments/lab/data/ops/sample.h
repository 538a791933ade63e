// Pillow's bilinear and bicubic sampling at arbitrary points.
#pragma once

#include "experiments/lab/data/ops/affine.h"

namespace normlab {

/// Interpolates for pillow_affine(). Neighbours outside the image repeat its border pixels.
void sample_pillow(Image& image, const AffineMap& map, ResizeMethod method, const Fill& fill, OpScratch& scratch);

}  // namespace normlab
