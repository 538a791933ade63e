// Datasets as WebDataset shards of JPEGs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "experiments/data/image_set.h"

namespace normlab {

struct PackSettings {
  std::int64_t size = 0;           // the shorter side; smaller images stay as they are; 0: all do
  int quality = 95;                // of JPEGs that are encoded
  bool encode_all = false;         // also those that need not be, since they are JPEGs of the size wanted
  std::int64_t shard_size = 1000;  // images in each shard
  int threads = 1;
};

struct PackReport {
  std::int64_t images = 0, copied = 0, bytes = 0, shards = 0;  // copied: with the bytes of their files
};

/// Writes `split`-000000.tar, ... and classes.txt into `folder`. The images come in a fixed mixed order, so that each
/// shard is a sample of all: members NNNNNNNNN.jpg, .cls and .txt (the key they had). Resized with Pillow's bicubic
/// filter. The same bytes for any number of threads. Shards are called NAME.unfinished until all are written, so that a
/// part of a set does not look like one. InputError: an image that cannot be decoded, images of one channel, files of
/// these names that are there already; EnvironmentError: the folder cannot be written.
PackReport pack_images(const ImageSet& images, const std::string& split, const std::filesystem::path& folder,
                       const PackSettings& settings);

}  // namespace normlab
