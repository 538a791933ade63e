// What a reader finds of a split before any image is decoded, and how an ImageSet is made of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/data/image_set.h"
#include "experiments/descriptor/slice.h"

namespace normlab {

/// What a reader is asked for.
struct SliceRequest {
  Slice slice;
  std::string dataset;        // its name keys the permutations of slices and subsets
  Subset subset{};            // of the training slice alone
  bool skip_bad = false;      // leave out and list what cannot be decoded, instead of an InputError
  bool keep_encoded = false;  // decode nothing, whatever the sizes: for those who look at the files themselves
  int threads = 1;
  std::vector<std::string> class_names{};  // image folders: those of the training split; empty: those that are there
};

/// One image of a split.
struct ImageEntry {
  std::string key;  // unique in the split
  std::int32_t label = -1;
  std::int32_t archive = -1;            // the archive that it lies in; -1: a file of its own, folder/key
  std::string member;                   // its name there
  std::int64_t offset = 0, bytes = -1;  // of its data in the archive; -1: the size of the file
  std::vector<std::uint8_t> content{};  // where it cannot be read in place
};

/// All images of a split, in any order.
struct ImageIndex {
  std::string kind;  // "WebDataset", for people
  std::filesystem::path folder;
  std::vector<std::string> archives;  // below the folder
  std::vector<std::string> class_names;
  std::vector<ImageEntry> entries;
};

/// Decoded pixels of one slice above this stay in their files.
inline constexpr std::int64_t kMostBytesInMemory = std::int64_t{4} << 30;

/// Sorts by key, takes the slice and the subset. Images of one size that fit kMostBytesInMemory are decoded now; all
/// others stay encoded, and the set's `hash` is then of class names, keys, labels and sizes in bytes. Which of the two
/// hangs on the files alone. With skip_bad every image is decoded once in any case, so that the set holds those that
/// can be, whatever is asked of them later. InputError: two images of one key, a bad slice or subset, a file that is
/// missing or cannot be decoded (with skip_bad it is listed in `bad_images`), nothing left.
ImageSet load_images(ImageIndex index, const SliceRequest& request);

/// SHA-256 in hexadecimal over class names, keys, labels and the bytes of every file of an encoded set.
std::string encoded_content_hash(const ImageSet& images);

}  // namespace normlab
