// The order of the training images in an epoch.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/lab/data/image_set.h"
#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// A permutation of 0 .. set.size() - 1 that depends only on (config.order, config.shuffle_buffer, seed, epoch) and the
/// set, so any step can be computed directly. shuffled: over the whole set. shards: the shards are permuted, and their
/// images, in stored order, pass through a buffer of shuffle_buffer images from which each next one is drawn, so files
/// are read almost sequentially. Stream "order" of `seed`, names "train" (images or shards) and "buffer". InputError:
/// order "shards" without shards.
std::vector<std::int64_t> sample_order(const DatasetConfig& config, const ImageSet& set, std::uint64_t seed,
                                       std::int64_t epoch);

}  // namespace normlab
