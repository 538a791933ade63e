// From a descriptor's "dataset" to images in memory.
#pragma once

#include <filesystem>
#include <optional>

#include "experiments/data/image_set.h"
#include "experiments/descriptor/config.h"

namespace normlab {

struct DataPair {
  ImageSet train, eval;
};

/// Where data lies: `from_command_line` (--data) where it was given, else NORMLAB_DATA where it is set and not empty,
/// else ./data. The first of these that is set decides: one that is set and is no folder is an InputError, and nothing
/// further is tried.
std::filesystem::path find_data_root(const std::optional<std::filesystem::path>& from_command_line);

/// The two slices of a dataset, `hash`, `channel_mean` and `channel_std` filled. Images are in order of their keys,
/// whatever the slice, and the same for any number of threads. A known dataset needs no `layout`: "shapes" is generated
/// and needs no data root either; "cifar10" is looked for in ROOT/cifar10 and ROOT (with a `path`, in ROOT/path alone),
/// as WebDataset shards, then as cifar-10-batches-bin. InputError: nothing there (with all places looked at and what is
/// expected), bad files, a bad slice, training and evaluation images of different sizes, a class without a training
/// image unless allow_absent_classes.
DataPair load_dataset(const DatasetConfig& config, const std::optional<std::filesystem::path>& data_from_command_line,
                      int threads);

}  // namespace normlab
