// From a descriptor's "dataset" to images.
#pragma once

#include <filesystem>
#include <optional>

#include "experiments/data/image_set.h"
#include "experiments/descriptor/class_counts.h"
#include "experiments/descriptor/known_images.h"

namespace normlab {

struct DataPair {
  ImageSet train, eval;
  std::optional<ImageSet> minival;  // where DatasetConfig::minival names one
};

/// The hashes of all slices, joined by "+": what a result says it was trained and evaluated on.
std::string data_hash(const DataPair& data);

/// Where data lies: `from_command_line` (--data) where it was given, else NORMLAB_DATA where it is set and not empty,
/// else ./data. The first of these that is set decides: one that is set and is no folder is an InputError, and nothing
/// further is tried.
std::filesystem::path find_data_root(const std::optional<std::filesystem::path>& from_command_line);

/// How many classes the files of a data set name, for descriptors that leave `model.num_classes` to the data. Each data
/// set is looked at once. InputError as load_dataset.
ClassCounts class_counts(const std::optional<std::filesystem::path>& data_from_command_line);

/// How many images the slices of a data set have: by its name where that says it, else by the files, none of which is
/// decoded (those that cannot be decoded count). InputError as load_dataset.
SliceSizes slice_sizes(const DatasetConfig& config, const std::optional<std::filesystem::path>& data_from_command_line,
                       int threads);

/// The two or three slices of a dataset, `hash`, `channel_mean` and `channel_std` filled. Images are in order of their
/// keys, whatever the slice, and the same for any number of threads. per_class and fraction are of the training slice
/// alone. A known dataset needs no `layout`: "shapes" is generated and needs no data root either; "cifar10" is looked
/// for in ROOT/cifar10 and ROOT (with a `path`, in ROOT/path alone), as WebDataset shards, then as
/// cifar-10-batches-bin; others in ROOT/name and where torchvision puts them. Mean and deviation of both sets are
/// config.mean and config.std where these are given, and for encoded images they must be. InputError: nothing there
/// (with all places looked at and what is expected), bad files, a bad slice, training and evaluation images in memory
/// of different sizes, a class without a training image unless allow_absent_classes, images that are in two of the
/// slices, a mean or deviation that does not fit or is missing, order "shards" of what is no shards.
DataPair load_dataset(const DatasetConfig& config, const std::optional<std::filesystem::path>& data_from_command_line,
                      int threads);

}  // namespace normlab
