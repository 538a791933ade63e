// Slices of a split: "train", "train[:99%]", "train[800:1000]", "train[:800]+train[90%:][:200]"; and their sums across
// splits: "train[:800]+val[:200]".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/descriptor/config.h"

namespace normlab {

struct SliceBound {
  std::int64_t value = 0;
  bool percent = false;
};

struct SliceCut {
  std::optional<SliceBound> begin, end;
};

struct Slice {
  std::string text;   // as written
  std::string split;  // letters, digits and underscores
  /// The sum of these parts, at least one. Each cuts the split, then what the cut before it left.
  std::vector<std::vector<SliceCut>> parts;
  bool whole() const { return parts.size() == 1 && parts.front().empty(); }
  /// Whether some bound is a number of images.
  bool counts_images() const;
};

/// A sum of parts, each `split`, `split[begin:end]` or `split[begin:end][begin:end]`; a bound is empty, a number of
/// images, or an integer percentage. Returns a slice for each split, in order of first appearance. InputError explains
/// what is wrong.
std::vector<Slice> parse_slices(std::string_view text);
/// The same for one split; InputError if there are more.
Slice parse_slice(std::string_view text);
/// The first split that a slice names.
std::string first_split(std::string_view text);

/// The images of a slice whose split is of unknown size, if its parts end in a cut by numbers.
std::optional<std::int64_t> counted_images(const Slice& slice);

/// The positions begin to end of each part in a split of `samples` images. InputError: empty, past the end, or parts
/// that overlap.
struct SliceSpan {
  std::int64_t begin = 0, end = 0;
};
std::vector<SliceSpan> spans_of(const Slice& slice, std::string_view dataset, std::int64_t samples);
/// The number of images that a stratified slice takes of a class with `samples` images, perhaps none.
std::int64_t images_of_class(const Slice& slice, std::string_view dataset, std::int64_t samples);

/// Ascending indices of a slice of `samples` images sorted by key: spans_of() a fixed permutation that depends only on
/// (seed, dataset). Percentages are rounded down to an image, so "[:99%]" and "[99%:]" are disjoint and complete.
/// InputError as spans_of().
std::vector<std::int64_t> slice_indices(const Slice& slice, std::string_view dataset, std::int64_t samples,
                                        std::uint64_t seed = 0);

/// How a slice is cut: from the permutation of `seed`, or, stratified, from that of each class.
struct SliceRule {
  bool stratified = false;
  std::uint64_t seed = 0;
};

/// The same number of images per class, or a share of each class, not both. Slices count only images of `classes`.
struct Subset {
  std::int64_t per_class = 0;  // 0: all
  double fraction = 1.0;       // in (0, 1]
  std::uint64_t seed = 0;
  std::vector<std::string> classes{};  // empty: all
  SliceRule rule{};
  bool whole() const { return per_class == 0 && fraction >= 1; }
};

/// InputError for a name in `wanted` that `class_names` lacks or has twice.
void require_class_names(std::string_view dataset, const std::vector<std::string>& wanted,
                         std::span<const std::string> class_names);

/// Ascending indices of the slice's images that a subset takes. `labels` [samples] are those of the split in key order,
/// each below class_names.size(). Images are taken in the order of a permutation of the split that depends only on
/// (seed, dataset), so a larger subset with the same seed contains the smaller. A fraction of the slice is rounded to
/// an image. Each class gets its share, rounded down; the rest goes to the classes that lost most to rounding, the
/// lower label first. InputError: as for slice_indices, a stratified slice that counts images, both kinds of subset at
/// once, or a class that has some images but fewer than per_class, or an unknown class.
std::vector<std::int64_t> select_images(const Slice& slice, const Subset& subset, std::string_view dataset,
                                        std::span<const std::int32_t> labels, std::span<const std::string> class_names);

// --- sizes of slices known before any data are read

/// nullopt if only the files can tell. InputError for a slice that is invalid or past the end.
std::optional<std::int64_t> known_training_images(const DatasetConfig& dataset);
std::optional<std::int64_t> known_evaluation_images(const DatasetConfig& dataset);
/// 0 if the dataset names no minival.
std::optional<std::int64_t> known_minival_images(const DatasetConfig& dataset);

struct SliceSizes {
  std::optional<std::int64_t> train, eval, minival;
};
SliceSizes known_slice_sizes(const DatasetConfig& dataset);

/// nullopt if only the files can tell.
std::optional<std::int64_t> known_split_images(const DatasetConfig& dataset, std::string_view split);

/// How its slices are cut.
SliceRule slice_rule(const DatasetConfig& dataset);

/// "" if two slices of a dataset are disjoint, otherwise why not.
std::string shared_images(const DatasetConfig& dataset, std::string_view a, std::string_view b);

}  // namespace normlab
