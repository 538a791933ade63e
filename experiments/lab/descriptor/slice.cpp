#include "experiments/lab/descriptor/slice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/text_layout.h"

namespace normlab {
namespace {

constexpr const char* kForms = R"(a slice is "train", "train[:800]", "train[800:1000]" or "train[:99%]")";

std::optional<SliceBound> parse_bound(std::string_view text, std::string_view slice) {
  if (text.empty()) return std::nullopt;
  SliceBound bound;
  bound.percent = text.back() == '%';
  if (bound.percent) text.remove_suffix(1);
  const std::optional<std::uint64_t> value = whole_number(text);
  if (!value || text.size() > 15)
    throw InputError(
        concat("slice ", in_quotes(slice), ": a bound is an integer, a number of images or a percentage; ", kForms));
  bound.value = std::int64_t(*value);
  if (bound.percent && bound.value > 100) throw InputError(concat("slice ", in_quotes(slice), ": more than 100%"));
  return bound;
}

std::vector<std::int64_t> class_shares(double fraction, const std::vector<std::int64_t>& there) {
  std::int64_t total = 0;
  for (const std::int64_t count : there) total += count;
  std::int64_t left = std::max<std::int64_t>(1, std::llround(fraction * static_cast<double>(total)));
  std::vector<std::int64_t> shares(there.size());
  std::vector<double> lost(there.size());
  for (std::size_t c = 0; c < there.size(); ++c) {
    const double share = fraction * static_cast<double>(there[c]);
    shares[c] = std::min(there[c], static_cast<std::int64_t>(share));
    lost[c] = share - static_cast<double>(shares[c]);
    left -= shares[c];
  }
  std::vector<std::size_t> by_loss(there.size());
  for (std::size_t c = 0; c < by_loss.size(); ++c) by_loss[c] = c;
  std::stable_sort(by_loss.begin(), by_loss.end(), [&](std::size_t a, std::size_t b) { return lost[a] > lost[b]; });
  for (std::size_t i = 0; i < by_loss.size() && left > 0; ++i) {
    const std::size_t c = by_loss[i];
    if (shares[c] == there[c]) continue;
    ++shares[c];
    --left;
  }
  return shares;
}

/// "[begin:end][begin:end]"; `slice` is the whole text.
std::vector<SliceCut> parse_cuts(std::string_view text, std::string_view slice) {
  std::vector<SliceCut> cuts;
  while (!text.empty()) {
    const std::size_t colon = text.find(':'), close = text.find(']');
    if (text.front() != '[' || close == text.npos || colon >= close)
      throw InputError(concat("slice ", in_quotes(slice), ": the text after the split is not [begin:end]; ", kForms));
    cuts.push_back(
        {parse_bound(text.substr(1, colon - 1), slice), parse_bound(text.substr(colon + 1, close - colon - 1), slice)});
    text.remove_prefix(close + 1);
  }
  return cuts;
}

std::vector<SliceSpan> cut_spans(const Slice& slice, std::string_view dataset, std::int64_t samples,
                                 bool may_be_empty) {
  const std::string where = concat("dataset ", in_quotes(dataset), ", slice ", in_quotes(slice.text), ": ");
  std::vector<SliceSpan> spans;
  for (const std::vector<SliceCut>& cuts : slice.parts) {
    SliceSpan span{0, samples};
    if (samples == 0) throw InputError(concat(where, "is empty: from 0 to 0 of 0 images"));
    for (const SliceCut& cut : cuts) {
      const std::int64_t images = span.end - span.begin;
      const auto position = [&](const std::optional<SliceBound>& bound, std::int64_t absent) {
        if (!bound) return absent;
        return bound->percent ? images * bound->value / 100 : bound->value;
      };
      const std::int64_t begin = position(cut.begin, 0), end = position(cut.end, images);
      const char* const what = &cut == cuts.data() ? "the split" : "the part before it";
      if (end > images) throw InputError(concat(where, "ends at ", end, ", but ", what, " has ", images, " images"));
      if (begin > end || (begin == end && !may_be_empty))
        throw InputError(concat(where, "is empty: from ", begin, " to ", end, " of ", images, " images"));
      span = {span.begin + begin, span.begin + end};
    }
    spans.push_back(span);
  }
  std::sort(spans.begin(), spans.end(), [](const SliceSpan& a, const SliceSpan& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < spans.size(); ++i)
    if (spans[i].begin < spans[i - 1].end)
      throw InputError(
          concat(where, "two of its parts share ", spans[i - 1].end - spans[i].begin, " of ", samples, " images"));
  return spans;
}

/// Positions in `labels`, ascending, of a slice that is cut from each class.
std::vector<std::int64_t> stratified_indices(const Slice& slice, std::string_view dataset,
                                             const std::vector<std::int32_t>& labels, std::uint64_t seed) {
  const std::string where = concat("dataset ", in_quotes(dataset), ", slice ", in_quotes(slice.text), ": ");
  if (slice.counts_images())
    throw InputError(
        concat(where, "a stratified slice takes a share of each class; write percentages, such as \"train[:80%]\""));
  std::vector<std::vector<std::int64_t>> of_class;
  for (const std::int64_t i : permutation(stream_key(seed, "slice", dataset), std::ssize(labels), 0)) {
    const auto label = static_cast<std::size_t>(labels[static_cast<std::size_t>(i)]);
    if (label >= of_class.size()) of_class.resize(label + 1);
    of_class[label].push_back(i);
  }
  std::vector<std::int64_t> chosen;
  for (const std::vector<std::int64_t>& order : of_class)
    if (!order.empty())
      for (const SliceSpan& span : cut_spans(slice, dataset, std::ssize(order), true))
        chosen.insert(chosen.end(), order.begin() + span.begin, order.begin() + span.end);
  if (chosen.empty()) throw InputError(concat(where, "is empty: its share of each class is less than an image"));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

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

std::vector<Slice> parse_slices(std::string_view text) {
  std::vector<Slice> slices;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const std::string_view split = part.substr(0, part.find('['));
    const bool named = !split.empty() && std::all_of(split.begin(), split.end(),
                                                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    if (!named) throw InputError(concat("slice ", in_quotes(text), ": does not name a split; ", kForms));
    auto slice = std::find_if(slices.begin(), slices.end(), [&](const Slice& known) { return known.split == split; });
    if (slice == slices.end()) slice = slices.insert(slice, Slice{"", std::string(split), {}});
    slice->text += concat(slice->text.empty() ? "" : "+", part);
    slice->parts.push_back(parse_cuts(part.substr(split.size()), text));
    begin = end + 1;
  }
  return slices;
}

Slice parse_slice(std::string_view text) {
  std::vector<Slice> slices = parse_slices(text);
  if (slices.size() > 1)
    throw InputError(concat("slice ", in_quotes(text), ": adds parts of several splits; here a slice is of one split"));
  return std::move(slices.front());
}

std::string first_split(std::string_view text) { return parse_slices(text).front().split; }

std::optional<std::int64_t> counted_images(const Slice& slice) {
  std::int64_t images = 0;
  for (const std::vector<SliceCut>& cuts : slice.parts) {
    if (cuts.empty() || !cuts.back().end || cuts.back().end->percent) return std::nullopt;
    const std::optional<SliceBound>& begin = cuts.back().begin;
    if (begin && begin->percent) return std::nullopt;
    images += cuts.back().end->value - (begin ? begin->value : 0);
  }
  return images;
}

bool Slice::counts_images() const {
  for (const std::vector<SliceCut>& cuts : parts)
    for (const auto& [begin, end] : cuts)
      if ((begin && !begin->percent) || (end && !end->percent)) return true;
  return false;
}

std::vector<SliceSpan> spans_of(const Slice& slice, std::string_view dataset, std::int64_t samples) {
  return cut_spans(slice, dataset, samples, false);
}

std::int64_t images_of_class(const Slice& slice, std::string_view dataset, std::int64_t samples) {
  std::int64_t images = 0;
  for (const SliceSpan& span : cut_spans(slice, dataset, samples, true)) images += span.end - span.begin;
  return images;
}

std::vector<std::int64_t> slice_indices(const Slice& slice, std::string_view dataset, std::int64_t samples,
                                        std::uint64_t seed) {
  const std::vector<SliceSpan> spans = spans_of(slice, dataset, samples);
  const std::vector<std::int64_t> order = permutation(stream_key(seed, "slice", dataset), samples, 0);
  std::vector<std::int64_t> chosen;
  for (const SliceSpan& span : spans) chosen.insert(chosen.end(), order.begin() + span.begin, order.begin() + span.end);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

void require_class_names(std::string_view dataset, const std::vector<std::string>& wanted,
                         std::span<const std::string> class_names) {
  for (const std::string& name : wanted) {
    const auto count = std::count(class_names.begin(), class_names.end(), name);
    if (count == 0)
      throw InputError(concat("dataset ", in_quotes(dataset), ": ",
                              unknown_word("class", name, {class_names.begin(), class_names.end()})));
    if (count > 1)
      throw InputError(concat("dataset ", in_quotes(dataset), ": ", count, " classes have the name ", in_quotes(name),
                              ", so it chooses none of them; rename them in classes.txt"));
  }
}

std::vector<std::int64_t> select_images(const Slice& slice, const Subset& subset, std::string_view dataset,
                                        std::span<const std::int32_t> labels,
                                        std::span<const std::string> class_names) {
  const auto samples = static_cast<std::int64_t>(labels.size());
  const std::string where = concat("dataset ", in_quotes(dataset), ", slice ", in_quotes(slice.text), ": ");
  const auto label = [&](std::int64_t i) { return static_cast<std::size_t>(labels[static_cast<std::size_t>(i)]); };
  std::vector<bool> of_subset(class_names.size(), subset.classes.empty());
  require_class_names(dataset, subset.classes, class_names);
  for (const std::string& name : subset.classes)
    of_subset[static_cast<std::size_t>(std::find(class_names.begin(), class_names.end(), name) - class_names.begin())] =
        true;
  std::vector<std::int64_t> there_are;  // images of these classes
  std::vector<std::int32_t> their_labels;
  for (std::int64_t i = 0; i < samples; ++i) {
    if (!of_subset[label(i)]) continue;
    there_are.push_back(i);
    their_labels.push_back(labels[static_cast<std::size_t>(i)]);
  }
  std::vector<std::int64_t> chosen = subset.rule.stratified && !slice.whole()
                                         ? stratified_indices(slice, dataset, their_labels, subset.rule.seed)
                                         : slice_indices(slice, dataset, std::ssize(there_are), subset.rule.seed);
  for (std::int64_t& i : chosen) i = there_are[static_cast<std::size_t>(i)];
  if (subset.whole()) return chosen;
  if (subset.per_class > 0 && subset.fraction < 1)
    throw InputError(concat(where, "per_class and fraction both set the number of images; leave one of them out"));
  std::vector<std::int64_t> there(class_names.size());
  std::vector<bool> in_slice(labels.size());
  for (const std::int64_t i : chosen) {
    ++there[label(i)];
    in_slice[static_cast<std::size_t>(i)] = true;
  }
  std::vector<std::int64_t> wanted(there.size(), subset.per_class);
  if (subset.per_class == 0) wanted = class_shares(subset.fraction, there);
  for (std::size_t c = 0; c < there.size(); ++c) {
    if (there[c] > 0 && there[c] < wanted[c])
      throw InputError(concat(where, "per_class is ", wanted[c], ", but class ",
                              class_names[c].empty() ? std::to_string(c) : in_quotes(class_names[c]), " has ", there[c],
                              " images there"));
  }
  chosen.clear();
  for (const std::int64_t i : permutation(stream_key(subset.seed, "subset", dataset), samples, 0)) {
    if (in_slice[static_cast<std::size_t>(i)] && wanted[label(i)]-- > 0) chosen.push_back(i);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

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
