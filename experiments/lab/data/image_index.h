// A split before any image is decoded, and how it becomes an ImageSet.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/data/image_set.h"
#include "experiments/lab/descriptor/dataset_config.h"
#include "experiments/lab/descriptor/slice.h"

namespace normlab {

/// How numbers are labels; DatasetConfig::labels_from and class_order.
struct LabelNumbers {
  std::optional<std::int64_t> from;
  std::string order;
};

struct SliceRequest {
  Slice slice;
  std::string dataset;                  // name that keys the permutations of slices and subsets
  Subset subset{};                      // applies only to the training slice
  MaskLabels masks = MaskLabels::none;  // none: images have classes
  bool skip_bad = false;                // omit and list images that cannot be decoded, instead of an InputError
  bool keep_encoded = false;            // decode nothing: for reading the files themselves
  int threads = 1;
  bool captions = false;                   // each image has a text
  bool labelled = true;                    // with captions: each image has a class, too
  std::vector<std::string> class_names{};  // image folders: classes of the training split; empty: those present
  LabelNumbers numbers{};
};

/// One image of a split.
struct ImageEntry {
  std::string key;  // unique in the split
  std::int32_t label = -1;
  std::int32_t archive = -1;            // index of its archive; -1: a separate file, folder/key
  std::string member{};                 // its name in the archive
  std::int64_t offset = 0, bytes = -1;  // of its data in the archive; -1: the size of the file
  std::string caption{};
  std::vector<std::uint8_t> content{};  // if it cannot be read in place
  std::shared_ptr<ImageEntry> mask{};   // its mask; null: none
};

/// All images of a split, in any order.
struct ImageIndex {
  std::string kind;  // "WebDataset", for messages
  std::filesystem::path folder;
  std::vector<std::string> archives;  // relative to the folder
  std::vector<std::string> class_names;
  std::vector<ImageEntry> entries;
  std::filesystem::path mask_folder{};  // of masks in separate files
};

/// Slices with more decoded pixels stay encoded.
inline constexpr std::int64_t kMostBytesInMemory = std::int64_t{4} << 30;

/// Sorts by key, then takes the slice and the subset. Images of one size that fit in kMostBytesInMemory are decoded
/// now. All others stay encoded, with a `hash` over class names, keys, labels and sizes in bytes, which also says
/// whether some are 16-bit grayscale. The choice depends only on the files. With skip_bad every image is decoded once
/// in either case, so that only decodable ones remain. InputError: a duplicate key, a bad slice or subset, a missing or
/// undecodable file (with skip_bad, listed in `bad_images`), no images left.
ImageSet load_images(ImageIndex index, const SliceRequest& request);

/// Hexadecimal SHA-256 over class names, keys, labels and the files' bytes of an encoded set.
std::string encoded_content_hash(const ImageSet& images);

}  // namespace normlab
