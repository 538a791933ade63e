// In which order an epoch sees the training images.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/data/image_set.h"
#include "experiments/descriptor/config.h"

namespace normlab {

/// A permutation of 0 .. set.size() - 1: a pure function of (config.order, config.shuffle_buffer, seed, epoch) and the
/// set, so that any step of any epoch can be asked for. shuffled: over the whole set. shards: the shards in a permuted
/// order, their images as they lie there, each next one drawn from a buffer of shuffle_buffer images that the shards
/// keep filled; files are then read nearly in sequence. Stream "order" of `seed`, names "train" (both: the images, the
/// shards) and "buffer". InputError: shards of a set that has none.
std::vector<std::int64_t> sample_order(const DatasetConfig& config, const ImageSet& set, std::uint64_t seed,
                                       std::int64_t epoch);

}  // namespace normlab
