// A page of training images: each stored image beside its augmented version, with the target below.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/lab/data/image.h"

namespace normlab {

struct PreviewCell {
  Image stored, seen;
  std::string caption;
};

/// A page with at most `columns` pairs beside each other. Small images are enlarged, large ones resized.
std::string preview_sheet(std::span<const PreviewCell> cells, std::int64_t columns, const std::string& title);

/// Tints each pixel by its class, [height, width]: equal tints for equal classes in every image. Pixels that are
/// ignored become darker.
void tint(Image& image, std::span<const std::int32_t> classes);
/// The names of the classes that have a pixel, those with most pixels first; without the ignored ones.
std::string mask_caption(std::span<const std::int32_t> classes, const std::vector<std::string>& class_names);

/// "cat" if the target is one class; "cat 0.7 dog 0.3" if mixed, largest shares first, without those below `least`.
/// Sigmoid or smoothed targets need not sum to 1.
std::string target_caption(std::span<const float> target, const std::vector<std::string>& class_names, double least);

}  // namespace normlab
