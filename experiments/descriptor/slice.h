// Slices of a split: "train", "train[:99%]", "train[:800]", "train[800:1000]".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

struct SliceBound {
  std::int64_t value = 0;
  bool percent = false;
};

struct Slice {
  std::string text;   // as written
  std::string split;  // letters, digits and underscores
  std::optional<SliceBound> begin, end;
};

/// `split` or `split[begin:end]`, bounds left out, a number of images, or a whole percentage. InputError says what is
/// wrong.
Slice parse_slice(std::string_view text);

/// The slice of `samples` images whose keys are sorted: positions begin..end of a fixed permutation of them, which
/// depends on the dataset's name alone (not on the trial's seed, nor on the order of files), given back in ascending
/// order. A percentage is rounded down to an image, so "[:99%]" and "[99%:]" share none and leave none out. InputError:
/// empty, or past the end.
std::vector<std::int64_t> slice_indices(const Slice& slice, std::string_view dataset, std::int64_t samples);

/// Which images of a slice are taken: the same number of each class, or a share of each. At most one of the two.
struct Subset {
  std::int64_t per_class = 0;  // 0: all
  double fraction = 1.0;       // in (0, 1]
  std::uint64_t seed = 0;
  bool whole() const { return per_class == 0 && fraction >= 1; }
};

/// The images of a slice that a subset takes, ascending. `labels` [samples] are those of the split in order of the
/// keys, each below class_names.size(). The subset takes images in the order of a permutation of the split that depends
/// on (seed, dataset) alone, so that a larger one with the same seed holds the smaller. A fraction is rounded to an
/// image for the whole slice, and each class gets its share of it, rounded down; the images left over go to the classes
/// whose shares lost most, the lower label first. InputError: those of slice_indices, both parts of a subset at once,
/// and a class that has some images but fewer than per_class.
std::vector<std::int64_t> select_images(const Slice& slice, const Subset& subset, std::string_view dataset,
                                        std::span<const std::int32_t> labels, std::span<const std::string> class_names);

}  // namespace normlab
