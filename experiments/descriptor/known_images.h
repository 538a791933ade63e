// What is known of the images of a slice before any data are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "experiments/descriptor/config.h"

namespace normlab {

/// Images of the training (or evaluation) slice where the dataset's name says how many it has; nullopt where only the
/// files can tell. InputError for a slice that is wrong in itself or past the end.
std::optional<std::int64_t> known_training_images(const DatasetConfig& dataset);
std::optional<std::int64_t> known_evaluation_images(const DatasetConfig& dataset);
/// 0 where the dataset names no minival.
std::optional<std::int64_t> known_minival_images(const DatasetConfig& dataset);

/// Images of the slices of a trial, where that is known.
struct SliceSizes {
  std::optional<std::int64_t> train, eval, minival;
};
SliceSizes known_slice_sizes(const DatasetConfig& dataset);

/// Images of a split of a dataset that is known by its name; nullopt where only the files can tell.
std::optional<std::int64_t> known_split_images(const DatasetConfig& dataset, std::string_view split);

/// What is wrong with two slices of one data set that should share no image: "" where they share none, otherwise why.
/// `images` of the split, 0 where unknown.
std::string shared_images(std::string_view a, std::string_view b, std::int64_t images);

}  // namespace normlab
