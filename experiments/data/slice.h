// Slices of a split: "train", "train[:99%]", "train[:800]", "train[800:1000]".
#pragma once

#include <cstdint>
#include <optional>
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

}  // namespace normlab
