// Finds a dataset on disk and selects its reader.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/lab/data/readers.h"
#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// For messages: the option that gives the data root.
inline constexpr std::string_view kDataRootOption = "--data (of eval: --data-root)";

struct DatasetPlace {
  DatasetLayout layout = DatasetLayout::known;  // known: generated, not on disk
  std::filesystem::path folder;
};

/// --data (`from_command_line`) if given, else NORMLAB_DATA if set and not empty, else ./data if that is a folder.
/// InputError if the first of these that is set is not a folder; later ones are not tried.
std::optional<std::filesystem::path> find_data_root(const std::optional<std::filesystem::path>& from_command_line);

/// Searches below the data root and where packages install data, as load_dataset describes. InputError as in
/// find_data_root(); no root; not found (with all places searched and what is expected), a path outside the root, a
/// layout whose required key is missing.
DatasetPlace find_dataset_place(const DatasetConfig& config,
                                const std::optional<std::filesystem::path>& data_from_command_line);

/// The layout that a folder's files imply and, for an image_list, the file of labels: the only one whose lines name
/// images, else the only other file beside images. Files about the folder (is_about_folder()) do not matter. InputError
/// for an image_masks and for any other folder, with what each layout looks like.
std::pair<DatasetLayout, std::string> recognised_layout(const std::filesystem::path& folder);

/// Training splits first.
std::vector<std::string> dataset_splits(const DatasetPlace& place);

/// Of the training slice of `config`; opens no image. Errors as in read_dataset.
std::vector<std::string> dataset_classes(const DatasetConfig& config, const DatasetPlace& place);

/// The same, but of `split` where the data have no training split.
std::vector<std::string> classes_beside(const DatasetConfig& config, const DatasetPlace& place,
                                        const std::string& split);

/// By the reader of the layout. `shard_names`: dataset.train_shards or eval_shards. Without names of classes in the
/// request an image folder has those of its training split, so that a slice has the same labels wherever it is read.
ImageSet read_dataset(const DatasetConfig& config, const DatasetPlace& place, const std::string& shard_names,
                      SliceRequest request);

}  // namespace normlab
