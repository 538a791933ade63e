#include "experiments/lab/descriptor/known_images.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/descriptor/slice.h"

namespace normlab {
namespace {

/// Images of the chosen classes, of which slices are cut. nullopt if only the files can tell.
std::optional<std::int64_t> chosen_split_images(const DatasetConfig& dataset, std::string_view split) {
  const std::optional<std::int64_t> images = known_split_images(dataset, split);
  const auto classes = std::ssize(dataset.chosen_classes());
  if (!images || classes == 0) return images;
  const KnownDataset& known = *find_dataset(dataset.name);
  const std::int64_t all = known_classes(known, dataset);
  if (!known.balanced || *images % all != 0 || classes > all) return std::nullopt;
  return *images / all * classes;
}

/// Of a slice that is cut from each class.
std::optional<std::int64_t> stratified_images(const DatasetConfig& dataset, const Slice& slice) {
  const KnownDataset* known = find_dataset(dataset.name);
  const std::optional<std::int64_t> images = known_split_images(dataset, slice.split);
  if (known == nullptr || !known->balanced || !images || slice.counts_images()) return std::nullopt;
  const std::int64_t all = known_classes(*known, dataset), more = *images % all;  // these classes have one image more
  const auto chosen = std::ssize(dataset.chosen_classes()), classes = chosen == 0 ? all : chosen;
  if (more > 0 && (chosen > 0 || !dataset.generated())) return std::nullopt;
  const auto of_class = [&](std::int64_t size) { return size > 0 ? images_of_class(slice, dataset.name, size) : 0; };
  return of_class(*images / all) * (classes - more) + (more > 0 ? of_class(*images / all + 1) * more : 0);
}

std::optional<std::int64_t> known_images(const DatasetConfig& dataset, const Slice& slice) {
  if (dataset.stratified && !slice.whole()) return stratified_images(dataset, slice);
  if (!known_split_images(dataset, slice.split)) return counted_images(slice);
  const std::optional<std::int64_t> images = chosen_split_images(dataset, slice.split);
  if (!images) return std::nullopt;
  std::int64_t sum = 0;
  for (const SliceSpan& span : spans_of(slice, dataset.name, *images)) sum += span.end - span.begin;
  return sum;
}

std::optional<std::int64_t> known_images(const DatasetConfig& dataset, const std::string& text) {
  std::int64_t sum = 0;
  for (const Slice& slice : parse_slices(text)) {
    const std::optional<std::int64_t> images = known_images(dataset, slice);
    if (!images) return std::nullopt;
    sum += *images;
  }
  return sum;
}

/// The same split; `images` of it, 0 if unknown.
std::string shared_images(const Slice& first, const Slice& second, std::int64_t images) {
  bool percent = false, counted = false;
  for (const Slice* slice : {&first, &second})
    for (const std::vector<SliceCut>& cuts : slice->parts)
      for (const SliceCut& cut : cuts)
        for (const std::optional<SliceBound>* bound : {&cut.begin, &cut.end})
          if (*bound) ((*bound)->percent ? percent : counted) = true;
  if (percent && counted && images == 0) return "may share images (one slice counts images, the other percent) with";
  // Of an unknown number of images, percentages are exact for two cuts in a row.
  constexpr std::int64_t kHundredths = 100 * 100, kMany = std::numeric_limits<std::int64_t>::max() / 128;
  const std::int64_t whole = images > 0 ? images : counted ? kMany : kHundredths;
  for (const SliceSpan& x : spans_of(first, "", whole))
    for (const SliceSpan& y : spans_of(second, "", whole))
      if (std::max(x.begin, y.begin) < std::min(x.end, y.end)) return "shares images with";
  return "";
}

}  // namespace

std::optional<std::int64_t> known_split_images(const DatasetConfig& dataset, std::string_view split) {
  const bool train = split == "train";
  if (dataset.generated()) return train ? dataset.train_images : dataset.eval_images;
  const KnownDataset* known = find_dataset(dataset.name);
  const std::int64_t images = known == nullptr ? 0 : train ? known->train_images : known->eval_images;
  return images == 0 ? std::nullopt : std::optional(images);
}

std::optional<std::int64_t> known_training_images(const DatasetConfig& dataset) {
  const std::optional<std::int64_t> slice = known_images(dataset, dataset.train);
  if (!slice) return std::nullopt;
  std::int64_t images = *slice;
  if (dataset.per_class > 0) {
    const KnownDataset* known = find_dataset(dataset.name);
    const auto chosen = std::ssize(dataset.chosen_classes());
    if (chosen == 0 && known == nullptr) return std::nullopt;
    const auto classes = chosen == 0 ? known_classes(*known, dataset) : chosen;
    images = std::min(images, dataset.per_class * classes);
  }
  return std::max<std::int64_t>(1, std::llround(dataset.fraction * double(images)));
}

std::optional<std::int64_t> known_evaluation_images(const DatasetConfig& dataset) {
  return known_images(dataset, dataset.eval);
}

std::optional<std::int64_t> known_minival_images(const DatasetConfig& dataset) {
  return dataset.minival.empty() ? 0 : known_images(dataset, dataset.minival);
}

SliceSizes known_slice_sizes(const DatasetConfig& dataset) {
  return {known_training_images(dataset), known_evaluation_images(dataset), known_minival_images(dataset)};
}

SliceRule slice_rule(const DatasetConfig& dataset) { return {dataset.stratified, dataset.slice_seed}; }

std::string shared_images(const DatasetConfig& dataset, std::string_view a, std::string_view b) {
  for (const Slice& first : parse_slices(a))
    for (const Slice& second : parse_slices(b)) {
      if (first.split != second.split) continue;
      // Of a stratified slice the numbers are those of each class.
      const std::int64_t images = dataset.stratified ? 0 : chosen_split_images(dataset, first.split).value_or(0);
      std::string why = shared_images(first, second, images);
      if (!why.empty()) return why;
    }
  return "";
}

}  // namespace normlab
