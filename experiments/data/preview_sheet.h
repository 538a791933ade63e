// A picture of training images: each as it is stored, beside what training sees of it, with its target below.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/data/image.h"

namespace normlab {

struct PreviewCell {
  Image stored, seen;
  std::string caption;
};

/// Cells in rows of `columns`. Images are brought to the same size: small ones are multiplied by a whole number, large
/// ones resized. Captions that are too long end in two dots.
Image preview_sheet(std::span<const PreviewCell> cells, std::int64_t columns);

/// "cat" where all of the target is one class; "cat 0.7 dog 0.3" where images are mixed: the largest shares first,
/// those below `least` left out. Sigmoid or smoothed targets need not sum to 1.
std::string target_caption(std::span<const float> target, const std::vector<std::string>& class_names, double least);

}  // namespace normlab
