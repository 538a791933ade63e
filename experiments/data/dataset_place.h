// Where a dataset lies on disk and which reader takes it.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "experiments/data/readers.h"
#include "experiments/descriptor/config.h"

namespace normlab {

struct DatasetPlace {
  DatasetLayout layout = DatasetLayout::known;  // known: generated, lies nowhere
  std::filesystem::path folder;
};

/// Looks for the dataset below `root` as load_dataset says. InputError: not there, with all places looked at and what
/// is expected; a path that leaves the root; a layout that needs a key which is missing.
DatasetPlace find_dataset_place(const DatasetConfig& config, const std::filesystem::path& root);

/// The layout that the names of its files give away, and the file of labels of an image_list, which is the only file
/// that is neither an image nor classes.txt. InputError, with what each layout looks like, for any other folder.
std::pair<DatasetLayout, std::string> recognised_layout(const std::filesystem::path& folder);

/// Splits that a place has, those to train on first.
std::vector<std::string> dataset_splits(const DatasetPlace& place);

/// The names of the classes that the training slice of `config` has labels of; no image is opened. Errors as
/// read_dataset's.
std::vector<std::string> dataset_classes(const DatasetConfig& config, const DatasetPlace& place);

/// One slice by the reader of its layout. `shard_names`: dataset.train_shards or eval_shards.
ImageSet read_dataset(const DatasetConfig& config, const DatasetPlace& place, const std::string& shard_names,
                      const SliceRequest& request);

}  // namespace normlab
