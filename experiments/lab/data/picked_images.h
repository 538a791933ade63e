// Some images of a set, as a set.
#pragma once

#include <vector>

#include "experiments/lab/data/image_set.h"

namespace normlab {

/// The images of `from` at these indices, in their order. Encoded images and masks are read from `from`'s files. The
/// result has no hash, means or shards.
ImageSet picked_images(const ImageSet& from, const std::vector<std::size_t>& picked);

/// Of `all` indices, `count` (or all, if there are fewer) at equal distances, ascending: 0, all / count, and so on,
/// rounded down. In a slice that is sorted by class, each class has its share.
std::vector<std::size_t> evenly_spaced(std::int64_t all, std::int64_t count);

}  // namespace normlab
