// The datasets on disk. Each reader sorts the samples of a split by key, takes the slice and decodes that alone.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/data/image_set.h"
#include "experiments/data/slice.h"

namespace normlab {

/// `folder` holds classes.txt (one name a line) and the split's shards, "train-000000.tar", "train-000001.tar", ... (or
/// .tar.gz), without a gap. In a shard consecutive members "key.jpg" (or .jpeg) and "key.cls" (a label in decimal) are
/// one sample, whose key is "shard/key". Members .json, .txt and .npy belong to a sample and are not read; "__name__"
/// is metadata; all else is an error. RGB, all images of one size, the first one's. Errors: InputError with shard,
/// member and, for the archive itself, byte offset. The same bytes for any number of threads.
ImageSet read_webdataset(const std::filesystem::path& folder, const Slice& slice, const std::string& dataset,
                         int threads);

/// True where `folder` holds shards of any split.
bool has_webdataset(const std::filesystem::path& folder);

/// `folder` is cifar-10-batches-bin: data_batch_1.bin to data_batch_5.bin ("train"), test_batch.bin ("test"),
/// batches.meta.txt; records of a label byte and three 32x32 planes. Keys are "data_batch_1/000042". InputError names
/// file, record and byte offset.
ImageSet read_cifar_binary(const std::filesystem::path& folder, const Slice& slice, const std::string& dataset);

/// True where `folder` holds one of the batches.
bool has_cifar_binary(const std::filesystem::path& folder);

/// The lines of a text file of class names, without blank lines at the end. InputError: none, twice the same, a blank
/// between.
std::vector<std::string> read_class_names(const std::filesystem::path& file);

}  // namespace normlab
