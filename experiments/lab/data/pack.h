// Packs datasets as WebDataset shards of JPEGs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "experiments/lab/data/image_set.h"

namespace normlab {

struct PackSettings {
  std::int64_t size = 0;           // shorter side; smaller images are unchanged; 0: all are
  int quality = 95;                // of encoded JPEGs
  bool encode_all = false;         // also re-encode JPEGs that already have the right size
  std::int64_t shard_size = 1000;  // images per shard
  int threads = 1;
};

struct PackReport {
  std::int64_t images = 0, copied = 0, bytes = 0, shards = 0;  // copied: with their files' bytes
  JpegFiles jpegs{};                                           // that were written
};

/// Writes `split`-000000.tar, ... and classes.txt into `folder`, in a fixed shuffled order, so that each shard is a
/// sample of all. Members are NNNNNNNNN.jpg, .cls and .txt (the original key). Resizes with Pillow's bicubic filter.
/// The bytes do not depend on the number of threads. Shards are named NAME.unfinished until all are written, so that a
/// partial set is not taken for a complete one. InputError: an undecodable image, one-channel images, existing files of
/// these names. EnvironmentError: the folder cannot be written.
PackReport pack_images(const ImageSet& images, const std::string& split, const std::filesystem::path& folder,
                       const PackSettings& settings);

}  // namespace normlab
