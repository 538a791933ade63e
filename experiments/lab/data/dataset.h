// Loads the images of a descriptor's "dataset".
#pragma once

#include <filesystem>
#include <optional>

#include "experiments/lab/data/image_set.h"
#include "experiments/lab/data/tokeniser.h"
#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/descriptor/slice.h"

namespace normlab {

struct DataPair {
  ImageSet train, eval;
  std::optional<ImageSet> minival;  // if DatasetConfig::minival names one
};

/// The hashes of all slices, joined by "+"; identifies a result's data.
std::string data_hash(const DataPair& data);
/// For errors about another hash: that an earlier version may have read the same files otherwise, and what to do.
std::string note_of_labels(const DatasetConfig& config);

/// The number of classes that a dataset's files name, for descriptors without `model.num_classes`. Inspects each
/// dataset once. InputError as in load_dataset.
ClassCounts class_counts(const std::optional<std::filesystem::path>& data_from_command_line);

/// All classes of a dataset, and the vocabulary of its captions, without any image being read. InputError as in
/// load_dataset.
std::vector<std::string> class_names_of(const DatasetConfig& config,
                                        const std::optional<std::filesystem::path>& data_from_command_line);
Tokeniser tokeniser_of(const DatasetConfig& config, const std::optional<std::filesystem::path>& data_from_command_line);

struct FoundSlices {
  SliceSizes sizes;
  bool in_memory = false;           // surely: load_dataset() decodes each training image once
  std::optional<ImageSet> files{};  // the training slice, encoded, if its files were listed to count them
  std::int64_t classes = 0;         // that the files here name; 0: there are none here, or the descriptor chooses some
  std::string folder{};             // of the files
};
/// Images per slice: from the dataset's name if that determines it, else from the files, if they are here, without
/// decoding any (undecodable ones count too). InputError as in load_dataset for what files tell before they are
/// decoded, and as in require_evaluation().
FoundSlices find_slices(const DatasetConfig& config, const std::optional<std::filesystem::path>& data_from_command_line,
                        int threads);

/// The fewest evaluation images, without allow_small_eval.
inline constexpr std::int64_t kFewestEvaluated = 10;

/// InputError if an evaluation would give a number without meaning: fewer than kFewestEvaluated images of data in
/// files, or none of a class that training has.
void require_evaluation(const DatasetConfig& config, const DataPair& data);

/// The two or three slices, with `hash`, `channel_mean` and `channel_std`. Images are ordered by key in every slice,
/// and do not depend on the number of threads. per_class and fraction apply only to the training slice.
/// A known dataset needs no `layout`. "shapes" and "gratings" are generated and need no data root. "cifar10" is
/// searched in ROOT/cifar10 and ROOT (with a `path`, only in ROOT/path), as WebDataset shards, then as
/// cifar-10-batches-bin; others in ROOT/name and where torchvision puts them, and fashion_mnist then where Debian's
/// package puts it, below the folders of XDG_DATA_DIRS. config.mean and config.std, if given, are used for both sets;
/// encoded images require them.
/// InputError: data not found (with all places searched and what is expected), bad files, a bad slice, training and
/// evaluation images in memory of different sizes, a class without a training image (or, with masks, a training pixel)
/// unless allow_absent_classes, masks whose pixels are all ignored, images in two slices, a missing or unsuitable mean
/// or deviation, order "shards" without shards.
DataPair load_dataset(const DatasetConfig& config, const std::optional<std::filesystem::path>& data_from_command_line,
                      int threads);

}  // namespace normlab
