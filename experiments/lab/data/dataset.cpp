#include "experiments/lab/data/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "core/error.h"
#include "core/ignored_label.h"
#include "core/visible_text.h"
#include "experiments/lab/base/parallel.h"
#include "experiments/lab/data/dataset_place.h"
#include "experiments/lab/data/eval_transform.h"
#include "experiments/lab/data/image_files.h"
#include "experiments/lab/data/picked_images.h"
#include "experiments/lab/data/scenes.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

std::string names_of_absent(const ImageSet& train, const std::vector<bool>& seen) {
  std::string absent;
  for (std::size_t c = 0; c < seen.size(); ++c)
    if (!seen[c]) absent += concat(absent.empty() ? "" : ", ", shown(train.class_names[c]));
  return absent;
}

std::vector<bool> classes_of(const ImageSet& images) {
  std::vector<bool> seen(static_cast<std::size_t>(images.num_classes));
  for (const std::int32_t label : images.labels) seen[static_cast<std::size_t>(label)] = true;
  return seen;
}

void require_all_classes(const DatasetConfig& config, const ImageSet& train) {
  const std::string absent = names_of_absent(train, classes_of(train));
  if (!absent.empty()) {
    throw InputError(concat("dataset ", in_quotes(config.name), ", training slice ", in_quotes(config.train),
                            ": no image of ", absent, "; take a larger slice or set allow_absent_classes"));
  }
}

/// Only texts of classes may be equal; a class of a classifier that has another's name is a line too many.
void require_distinct_names(const DatasetConfig& config, const ImageSet& train) {
  std::map<std::string_view, std::size_t> seen;
  for (std::size_t label = 0; label < train.class_names.size(); ++label)
    if (const auto [at, fresh] = seen.emplace(train.class_names[label], label); !fresh)
      throw InputError(concat("dataset ", in_quotes(config.name), ": the classes of labels ", at->second, " and ",
                              label, " are both named ", in_quotes(train.class_names[label]),
                              "; only with captions may names be equal"));
}

/// Keys are unique within a split; those of shards are unique everywhere, since they begin with the shard's name.
struct NamedSlice {
  const char* name;
  const std::string& text;
  const ImageSet& images;
};
/// What to put before the keys of a slice to compare them with those of other slices.
std::string split_prefix(const NamedSlice& slice) {
  const std::vector<Slice> parts = parse_slices(slice.text);
  return slice.images.shards.empty() && parts.size() == 1 ? key_prefix(parts.front().split) : "";
}
void require_disjoint(const DatasetConfig& config, const NamedSlice& a, const NamedSlice& b, const char* advice) {
  const std::string of_a = split_prefix(a), of_b = split_prefix(b);
  std::int64_t shared = 0;
  for (std::size_t i = 0, j = 0; i < a.images.keys.size() && j < b.images.keys.size();) {
    const int order = (of_a + a.images.keys[i]).compare(of_b + b.images.keys[j]);
    shared += order == 0;
    i += order <= 0;
    j += order >= 0;
  }
  if (shared > 0) {
    throw InputError(concat("dataset ", in_quotes(config.name), ": the ", a.name, " slice ", in_quotes(a.text),
                            " and the ", b.name, " slice ", in_quotes(b.text), " share ", shared, " images; ", advice));
  }
}

using PixelLabels = std::array<bool, kIgnoredLabel + 1>;

/// The labels of pixels. Reads masks, in order, until all classes are seen.
PixelLabels pixel_labels(const ImageSet& images, std::int64_t wanted, int threads) {
  constexpr std::int64_t kAtOnce = 256;
  struct Worker {
    Mask mask;
    std::vector<std::uint8_t> bytes;
    PixelLabels seen{};
  };
  std::vector<Worker> workers(static_cast<std::size_t>(std::max(threads, 1)));
  PixelLabels seen{};
  for (std::int64_t first = 0; first < images.size(); first += kAtOnce) {
    parallel_items(std::min(kAtOnce, images.size() - first), 16, threads, [&](std::size_t w, std::int64_t i) {
      Worker& worker = workers[w];
      images.masks->read(first + i, worker.mask, worker.bytes);
      for (const std::uint8_t label : worker.mask.labels) worker.seen[label] = true;
    });
    for (const Worker& worker : workers)
      for (std::size_t label = 0; label < seen.size(); ++label) seen[label] = seen[label] || worker.seen[label];
    if (std::count(seen.begin(), seen.end() - 1, true) >= wanted) break;
  }
  return seen;
}

/// Some pixel of the slice has a class; of a training slice, some pixel of each class is there.
void require_pixels(const DatasetConfig& config, const NamedSlice& slice, bool of_all_classes, int threads) {
  const std::int64_t classes = of_all_classes ? slice.images.num_classes : 1;
  const PixelLabels seen = pixel_labels(slice.images, classes, threads);
  std::vector<bool> there(static_cast<std::size_t>(slice.images.num_classes));
  std::copy_n(seen.begin(), std::min(there.size(), seen.size() - 1), there.begin());
  const bool any = std::find(there.begin(), there.end(), true) != there.end();
  if (any && (!of_all_classes || std::count(there.begin(), there.end(), true) == classes)) return;
  const bool white = config.masks == MaskLabels::classes && seen[kIgnoredLabel];
  throw InputError(
      concat("dataset ", in_quotes(config.name), ", ", slice.name, " slice ", in_quotes(slice.text), ": ",
             any ? concat("no pixel of its masks is ", names_of_absent(slice.images, there))
                 : concat("all pixels of its ", slice.images.size(), " masks are ignored"),
             white ? "; pixels of 255 are ignored: was 1 meant? The values of a mask are the numbers of classes" : "",
             any     ? "; take a larger slice or set allow_absent_classes"
             : white ? ""
                     : "; with \"masks\": \"from_one\" pixels of 0 are ignored too"));
}

void use_statistic(const DatasetConfig& config, const char* key, const std::vector<double>& given,
                   const ImageSet& train, std::vector<double>& statistic) {
  const std::string where = concat("dataset ", in_quotes(config.name), ", dataset.", key, ": ");
  const bool deviation = &given == &config.std;
  if (given.empty()) {
    if (train.encoded)
      throw InputError(concat(where, "is needed, because the images are not held in memory (", train.provenance,
                              "); `normlab data info ", config.path.empty() ? config.name : config.path,
                              config.layout == DatasetLayout::known ? "" : " --layout ",
                              config.layout == DatasetLayout::known ? "" : word_of(config.layout), "` measures it"));
    return;
  }
  if (static_cast<std::int64_t>(given.size()) != train.channels)
    throw InputError(concat(where, given.size(), " values for ", train.channels, " channels"));
  for (const double value : given) {
    if (!std::isfinite(value) || (deviation && value <= 0))
      throw InputError(concat(where, value, deviation ? " is not a number above 0" : " is not a number"));
  }
  statistic = given;
}

DatasetPlace place_of(const DatasetConfig& config, const std::optional<fs::path>& data_from_command_line) {
  if (config.generated() && config.layout == DatasetLayout::known) return {};
  return find_dataset_place(config, data_from_command_line);
}

/// Numbers the labels by the position of their class in `classes`, or of the group that holds it.
void number_classes(ImageSet& images, const DatasetConfig& config) {
  ClassGroups groups = config.class_groups;
  for (const std::string& name : config.classes) groups.emplace_back(name, std::vector{name});
  if (groups.empty()) return;
  std::vector<std::int32_t> label_of(images.class_names.size(), -1);
  std::vector<std::string> names;
  for (const auto& [group, members] : groups) {
    for (const std::string& name : members)
      label_of[static_cast<std::size_t>(std::find(images.class_names.begin(), images.class_names.end(), name) -
                                        images.class_names.begin())] = static_cast<std::int32_t>(names.size());
    names.push_back(group);
  }
  for (std::int32_t& label : images.labels) label = label_of[static_cast<std::size_t>(label)];
  images.class_names = names;
  images.num_classes = std::ssize(names);
  if (!images.encoded) return;  // others are hashed later
  SetHash hash;
  hash.text(images.hash);
  for (const auto& [group, members] : groups) {
    hash.text(group);
    if (!config.class_groups.empty())
      for (const std::string& name : members) hash.text(name);
  }
  images.hash = hash.hex();
}

Tokeniser tokeniser_at(const DatasetConfig& config, const DatasetPlace& place) {
  if (config.generated()) return Tokeniser::of_words(scene_words(), "the words of the captions of shapes");
  return config.vocabulary.empty() ? Tokeniser::of_bytes() : Tokeniser::from_file(place.folder / config.vocabulary);
}

/// Checks all captions before any training, and counts them into the hashes.
void use_captions(const DatasetConfig& config, const DatasetPlace& place, DataPair& pair) {
  const auto tokeniser = std::make_shared<const Tokeniser>(tokeniser_at(config, place));
  for (ImageSet* images : {&pair.train, &pair.eval, pair.minival ? &*pair.minival : nullptr}) {
    if (images == nullptr) continue;
    images->tokeniser = tokeniser;
    SetHash hash;
    hash.text(images->hash);
    for (std::int64_t i = 0; i < images->size(); ++i) {
      const std::string& caption = images->captions.at(static_cast<std::size_t>(i));
      tokeniser->require(caption, concat("the caption of ", numbered_image(*images, i)));
      hash.text(caption);
    }
    images->hash = hash.hex();
  }
}

/// What the files tell before they are decoded.
void require_sound(const DatasetConfig& config, const DataPair& pair, int threads) {
  const NamedSlice train{"training", config.train, pair.train}, eval{"evaluation", config.eval, pair.eval};
  const bool all_classes = !config.allow_absent_classes;
  if (all_classes && !pair.train.masks) require_all_classes(config, pair.train);
  constexpr const char* kSeenBefore =
      "images of the training say nothing about new images; use disjoint slices such as \"train[:90%]\" and "
      "\"train[90%:]\"";
  require_disjoint(config, train, eval, kSeenBefore);
  if (pair.train.masks) require_pixels(config, train, all_classes, threads);
  if (pair.eval.masks) require_pixels(config, eval, false, threads);
  if (!pair.minival) return;
  const NamedSlice minival{"minival", config.minival, *pair.minival};
  require_disjoint(config, train, minival, kSeenBefore);
  require_disjoint(config, minival, eval,
                   "selecting by images of the evaluation slice biases its results; use a part of the training "
                   "images, such as \"train[90%:]\" next to \"train[:90%]\"");
  if (pair.minival->masks) require_pixels(config, minival, false, threads);
}

DataPair read_slices(const DatasetConfig& config, const DatasetPlace& place, int threads, bool keep_encoded) {
  SliceRequest request;
  request.dataset = config.name;
  request.subset = {config.per_class, config.fraction, config.subset_seed, config.chosen_classes(), slice_rule(config)};
  request.masks = config.masks;
  request.skip_bad = config.on_bad_image == OnBadImage::skip && !keep_encoded;
  request.keep_encoded = keep_encoded;
  request.threads = threads;
  request.captions = config.captions;
  request.labelled = !config.captions;
  DataPair pair;
  const auto read = [&](const std::string& slice, const std::string& shards) {
    return read_joined(parse_slices(slice), request,
                       [&](const SliceRequest& of_split) { return read_dataset(config, place, shards, of_split); });
  };
  pair.train = read(config.train, config.train_shards);
  if (!config.captions) require_distinct_names(config, pair.train);
  request.labelled = true;
  request.subset = {.classes = config.chosen_classes(), .rule = slice_rule(config)};
  request.class_names = pair.train.class_names;
  pair.eval = read(config.eval, config.eval_shards);
  if (!config.minival.empty()) {
    const bool as_eval = first_split(config.minival) == first_split(config.eval);
    pair.minival = read(config.minival, as_eval ? config.eval_shards : config.train_shards);
    number_classes(*pair.minival, config);
  }
  number_classes(pair.train, config);
  number_classes(pair.eval, config);
  return pair;
}

}  // namespace

std::string data_hash(const DataPair& data) {
  return data.train.hash + "+" + data.eval.hash + (data.minival ? "+" + data.minival->hash : "");
}

std::string note_of_labels(const DatasetConfig& config) {
  if (config.generated()) return "";
  return concat("\nIf the files are the same, ",
                config.labels.empty()
                    ? "their class names may be read otherwise: since 0.2.0 byte-order marks and quotes "
                      "are no part of a name"
                    : "their labels may be read otherwise: since 0.2.0 a label that is the name of a "
                      "class is that class, and other numbers must fit one reading alone",
                " (docs/data.md, \"Labels\"). Results of the earlier reading are of other classes; train again into "
                "another --out");
}

ClassCounts class_counts(const std::optional<fs::path>& data_from_command_line) {
  std::vector<std::pair<DatasetConfig, std::int64_t>> known;
  return [data_from_command_line, known](const DatasetConfig& config) mutable {
    DatasetConfig key;  // what the classes depend on
    key.name = config.name;
    key.path = config.path;
    key.layout = config.layout;
    key.labels = config.labels;
    key.labels_from = config.labels_from;
    key.class_order = config.class_order;
    key.train = first_split(config.train);
    for (const auto& [seen, count] : known)
      if (seen == key) return count;
    const DatasetPlace place = find_dataset_place(config, data_from_command_line);
    known.emplace_back(key, static_cast<std::int64_t>(dataset_classes(config, place).size()));
    return known.back().second;
  };
}

std::vector<std::string> class_names_of(const DatasetConfig& config,
                                        const std::optional<fs::path>& data_from_command_line) {
  return dataset_classes(config, place_of(config, data_from_command_line));
}

Tokeniser tokeniser_of(const DatasetConfig& config, const std::optional<fs::path>& data_from_command_line) {
  return tokeniser_at(config, place_of(config, data_from_command_line));
}

FoundSlices find_slices(const DatasetConfig& config, const std::optional<fs::path>& data_from_command_line,
                        int threads) {
  FoundSlices found{.sizes = known_slice_sizes(config)};
  const KnownDataset* known = find_dataset(config.name);
  if (known != nullptr && config.layout == DatasetLayout::known) {
    const auto [height, width] = known->image_size;
    found.in_memory = height > 0 && height * width * known->channels * known->train_images <= kMostBytesInMemory;
  }
  DatasetPlace place;
  try {
    place = place_of(config, data_from_command_line);
  } catch (const InputError&) {  // the data are elsewhere
    return found;
  }
  if (place.folder.empty()) return found;  // generated
  found.folder = place.folder.string();
  if (config.layout == DatasetLayout::known && config.path.empty() && found.sizes.train && found.sizes.eval &&
      found.sizes.minival) {
    if (config.chosen_classes().empty()) found.classes = std::ssize(dataset_classes(config, place));
    return found;
  }
  DataPair pair = read_slices(config, place, threads, true);
  require_sound(config, pair, threads);
  require_evaluation(config, pair);
  found.classes = pair.train.num_classes;
  found.sizes = {pair.train.size(), pair.eval.size(), pair.minival ? pair.minival->size() : 0};
  found.in_memory = found.in_memory || !pair.train.encoded;
  if (pair.train.encoded) found.files = std::move(pair.train);
  return found;
}

void require_evaluation(const DatasetConfig& config, const DataPair& data) {
  if (config.generated()) return;  // the descriptor states their number
  const auto require = [&](const NamedSlice& slice) {
    const std::string where =
        concat("dataset ", in_quotes(config.name), ", ", slice.name, " slice ", in_quotes(slice.text), ": ");
    if (slice.images.size() < kFewestEvaluated && !config.allow_small_eval)
      throw InputError(concat(where, "has ", slice.images.size(), " images; the result of fewer than ",
                              kFewestEvaluated,
                              " says next to nothing. Use more images, or set dataset.allow_small_eval"));
    if (slice.images.masks || config.captions) return;
    const std::vector<bool> trained = classes_of(data.train), here = classes_of(slice.images);
    for (std::size_t c = 0; c < here.size(); ++c)
      if (here[c] && trained[c]) return;
    throw InputError(concat(where, "no image has a class of the training slice ", in_quotes(config.train),
                            ", so none can be answered right; use slices with images of the same classes, such as "
                            "\"train[:80%]\" and \"train[80%:]\" with dataset.stratified"));
  };
  require({"evaluation", config.eval, data.eval});
  if (data.minival) require({"minival", config.minival, *data.minival});
}

DataPair load_dataset(const DatasetConfig& config, const std::optional<fs::path>& data_from_command_line, int threads) {
  const DatasetPlace place = place_of(config, data_from_command_line);
  DataPair pair = read_slices(config, place, threads, false);
  ImageSet &train = pair.train, &eval = pair.eval;
  train.folder = place.folder.string();
  // Sizes may differ: a crop makes them equal, and without one each must be the model's.
  for (const ImageSet* other : {&eval, pair.minival ? &*pair.minival : nullptr})
    if (other != nullptr && !train.encoded && !other->encoded && train.channels != other->channels)
      throw InputError(concat("dataset ", in_quotes(config.name), ": training images have ", train.channels,
                              " channels, ", other == &eval ? "evaluation" : "minival", " images ", other->channels));
  if (config.order == SampleOrder::shards && train.shards.empty())
    throw InputError(
        concat("dataset ", in_quotes(config.name), ": only WebDataset shards have order \"shards\"; leave it out"));
  require_sound(config, pair, threads);
  if (pair.minival) finish_image_set(*pair.minival);
  finish_image_set(train);
  finish_image_set(eval);
  if (config.captions) use_captions(config, place, pair);
  use_statistic(config, "mean", config.mean, train, train.channel_mean);
  use_statistic(config, "std", config.std, train, train.channel_std);
  return pair;
}

}  // namespace normlab
