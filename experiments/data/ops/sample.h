// Pillow's bilinear and bicubic sampling at any point.
#pragma once

#include "experiments/data/ops/affine.h"

namespace normlab {

/// The part of pillow_affine() between pixels. Neighbours beyond the border are its pixels.
void sample_pillow(Image& image, const AffineMap& map, ResizeMethod method, const Fill& fill, OpScratch& scratch);

}  // namespace normlab
