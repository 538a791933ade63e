// One set of images from slices of several splits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/lab/data/image_index.h"

namespace normlab {

/// "train/": before the keys of a split's images where those of other splits are beside them.
inline std::string key_prefix(const std::string& split) { return split + "/"; }

/// Calls `read` with the request of each slice and joins the sets in the order of the splits' names. A single slice is
/// returned as read. Keys begin with their split, except those of shards, which begin with the shard. Images are held
/// in memory if all slices hold theirs and have one size. Errors as read().
ImageSet read_joined(const std::vector<Slice>& slices, SliceRequest request,
                     const std::function<ImageSet(const SliceRequest&)>& read);

}  // namespace normlab
