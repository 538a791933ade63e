#include "experiments/lab/data/mask.h"

#include <algorithm>

#include "core/error.h"
#include "core/ignored_label.h"

namespace normlab {

void StoredMasks::read(std::int64_t index, Mask& out, std::vector<std::uint8_t>&) const {
  out.resize(height_, width_);
  std::copy_n(labels_.begin() + index * height_ * width_, height_ * width_, out.labels.begin());
}

void number_labels(Mask& mask, MaskLabels numbering, std::int64_t classes, const std::string& where) {
  for (std::size_t i = 0; i < mask.labels.size(); ++i) {
    std::uint8_t& label = mask.labels[i];
    if (label == kIgnoredLabel) continue;
    const std::uint8_t stored = label;
    if (numbering == MaskLabels::from_one) label = stored == 0 ? kIgnoredLabel : static_cast<std::uint8_t>(stored - 1);
    if (label == kIgnoredLabel || label < classes) continue;
    throw InputError(concat(where, ": row ", std::int64_t(i) / mask.width, ", column ", std::int64_t(i) % mask.width,
                            ": the pixel is ", int{stored}, ", but there are ", classes,
                            " classes, so pixels are at most ",
                            numbering == MaskLabels::from_one ? classes : classes - 1,
                            "; add the class to classes.txt, or write 255 to ignore a pixel"));
  }
}

void require_same_size(const Mask& mask, ImageSize image, const std::string& mask_where) {
  if (mask.height == image.height && mask.width == image.width) return;
  throw InputError(concat(mask_where, ": is ", mask.width, "x", mask.height, " pixels, but its image is ", image.width,
                          "x", image.height, "; a mask has a label for each pixel of its image"));
}

}  // namespace normlab
