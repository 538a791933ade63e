// Sizes of slices known before any data are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// nullopt if only the files can tell. InputError for a slice that is invalid or past the end.
std::optional<std::int64_t> known_training_images(const DatasetConfig& dataset);
std::optional<std::int64_t> known_evaluation_images(const DatasetConfig& dataset);
/// 0 if the dataset names no minival.
std::optional<std::int64_t> known_minival_images(const DatasetConfig& dataset);

struct SliceSizes {
  std::optional<std::int64_t> train, eval, minival;
};
SliceSizes known_slice_sizes(const DatasetConfig& dataset);

/// nullopt if only the files can tell.
std::optional<std::int64_t> known_split_images(const DatasetConfig& dataset, std::string_view split);

/// How its slices are cut.
struct SliceRule;
SliceRule slice_rule(const DatasetConfig& dataset);

/// "" if two slices of a dataset are disjoint, otherwise why not.
std::string shared_images(const DatasetConfig& dataset, std::string_view a, std::string_view b);

}  // namespace normlab
