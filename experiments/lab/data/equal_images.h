// Images of a data set that are the same picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/lab/data/measure.h"

namespace normlab {

/// A slice with its measures. `prefix` precedes keys in messages: "val/".
struct MeasuredSlice {
  std::string name, prefix;
  std::vector<std::int32_t> labels;
  std::vector<std::string> keys, digests;  // ImageMeasures::digests
};
MeasuredSlice measured_slice(const std::string& name, const ImageSet& images, const ImageMeasures& measures);

struct EqualImages {
  std::int64_t images = 0, other_labels = 0;  // other_labels: of them, with another label than the image they equal
  std::vector<std::string> shown;             // the first few: "val/b/1.png is train/b/1.png"; other labels first
};

/// Images of `b` that are equal in size and all decoded pixels to one of `a`, the first one.
EqualImages equal_images(const MeasuredSlice& a, const MeasuredSlice& b);
/// Images of a slice that are equal to an earlier one.
EqualImages equal_images(const MeasuredSlice& slice);

/// "12 images of val are also in train, 3 of them with another label: ..." for each two slices, then the images of one
/// slice that occur twice in it; nothing if all differ.
std::vector<std::string> words_on_equal_images(const std::vector<MeasuredSlice>& slices);

}  // namespace normlab
