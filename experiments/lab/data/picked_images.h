// Some images of a set, as a set; and a set of the slices of several splits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/lab/data/image_index.h"

namespace normlab {

/// The images of `from` at these indices, in their order. Encoded images and masks are read from `from`'s files. The
/// result has no hash, means or shards.
ImageSet picked_images(const ImageSet& from, const std::vector<std::size_t>& picked);

/// Of `all` indices, `count` (or all, if there are fewer) at equal distances, ascending: 0, all / count, and so on,
/// rounded down. In a slice that is sorted by class, each class has its share.
std::vector<std::size_t> evenly_spaced(std::int64_t all, std::int64_t count);

/// "train/": before the keys of a split's images where those of other splits are beside them.
inline std::string key_prefix(const std::string& split) { return split + "/"; }

/// Calls `read` with the request of each slice and joins the sets in the order of the splits' names. A single slice is
/// returned as read. Keys begin with their split, except those of shards, which begin with the shard. Images are held
/// in memory if all slices hold theirs and have one size. Errors as read().
ImageSet read_joined(const std::vector<Slice>& slices, SliceRequest request,
                     const std::function<ImageSet(const SliceRequest&)>& read);

}  // namespace normlab
