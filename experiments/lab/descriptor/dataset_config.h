// The images of a trial.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/field.h"

namespace normlab {

/// known: found by name. image_list: a flat folder and a file of labels. image_masks: images/ and masks/ with equal
/// names.
enum class DatasetLayout : std::uint8_t {
  known,
  webdataset,
  cifar,
  image_folder,
  idx,
  tiny_imagenet,
  image_list,
  image_masks
};
constexpr auto stated_words(DatasetLayout) {
  return words<DatasetLayout>("known", "webdataset", "cifar", "image_folder", "idx", "tiny_imagenet", "image_list",
                              "image_masks");
}

/// What the settings of a descriptor need to know of a layout; experiments/lab/data/readers.h has the rest.
struct LayoutTraits {
  DatasetLayout layout;
  bool ordered = false;    // its classes have no order of their own: dataset.class_order
  bool numbered = false;   // its labels are numbers: dataset.labels_from
  bool one_shape = false;  // its images are arrays of one shape, which decode without errors and have no shards
  bool files = false;      // an image is a file in a folder
  std::int64_t channels = 3;
};
inline constexpr LayoutTraits kLayoutTraits[] = {
    {.layout = DatasetLayout::known, .ordered = true},
    {.layout = DatasetLayout::webdataset, .numbered = true},
    {.layout = DatasetLayout::cifar, .one_shape = true},
    {.layout = DatasetLayout::image_folder, .ordered = true, .files = true},
    {.layout = DatasetLayout::idx, .numbered = true, .one_shape = true, .channels = 1},
    {.layout = DatasetLayout::tiny_imagenet, .ordered = true},
    {.layout = DatasetLayout::image_list, .ordered = true, .files = true},
    {.layout = DatasetLayout::image_masks}};
constexpr const LayoutTraits& traits_of(DatasetLayout layout) {
  return kLayoutTraits[static_cast<std::size_t>(layout)];
}

enum class SampleOrder : std::uint8_t { shuffled, shards };
constexpr auto stated_words(SampleOrder) { return words<SampleOrder>("shuffled", "shards"); }

/// How a mask's pixels are labels: classes: as they are; from_one: 0 is ignored, and 1 is the first class. 255 is
/// ignored.
enum class MaskLabels : std::uint8_t { none, classes, from_one };
constexpr auto stated_words(MaskLabels) { return words<MaskLabels>("none", "classes", "from_one"); }

enum class OnBadImage : std::uint8_t { fail, skip };
constexpr auto stated_words(OnBadImage) { return words<OnBadImage>("fail", "skip"); }

/// What tells the classes of "shapes" apart. relation: of a disc and a cross; the others: of scenes
/// (experiments/lab/data/scenes.h), a property of the largest object, or the number of objects.
enum class ShapesLabel : std::uint8_t { relation, kind, colour, number, position };
constexpr auto stated_words(ShapesLabel) {
  return words<ShapesLabel>("relation", "kind", "colour", "number", "position");
}
inline constexpr std::int64_t kShapesClasses[] = {10, 5, 8, 4, 9};  // by label

/// Classes of the data that make one class of the trial, under its name; ascending names.
using ClassGroups = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct DatasetConfig {
  std::string name = "shapes";
  std::string path{};
  DatasetLayout layout = DatasetLayout::known;
  std::string train = "train";  // or "train[:99%]", "train[:800]", "train[800:1000]"
  std::string eval = "test";
  std::string minival{};
  std::string train_shards{}, eval_shards{};
  std::string labels{};
  MaskLabels masks = MaskLabels::none;
  bool captions = false;
  std::string vocabulary{};
  std::vector<std::string> classes{};
  ClassGroups class_groups{};
  std::int64_t per_class = 0;
  double fraction = 1.0;
  std::uint64_t subset_seed = 0;
  bool allow_absent_classes = false, allow_small_eval = false;
  bool stratified = false;
  std::uint64_t slice_seed = 0;
  SampleOrder order = SampleOrder::shuffled;
  std::int64_t shuffle_buffer = 10000;
  OnBadImage on_bad_image = OnBadImage::fail;
  std::vector<double> mean{}, std{};
  std::int64_t train_images = 2000;
  std::int64_t eval_images = 1000;
  std::uint64_t shapes_seed = 1;
  ShapesLabel label = ShapesLabel::relation;
  std::optional<std::int64_t> labels_from{};  // 0 or 1
  std::string class_order{};                  // "", "bytes", "natural" or a file

  bool generated() const { return name == "shapes" || name == "gratings"; }
  /// Whether some slice is a part of its split.
  bool cuts() const { return (train + eval + minival).find('[') != std::string::npos; }
  /// The classes of the data that `classes` or `class_groups` name; empty: all.
  std::vector<std::string> chosen_classes() const {
    std::vector<std::string> chosen = classes;
    for (const auto& [name_of_group, members] : class_groups)
      chosen.insert(chosen.end(), members.begin(), members.end());
    return chosen;
  }
  bool operator==(const DatasetConfig&) const = default;
};
template <std::same_as<DatasetConfig> T>
constexpr auto rows_of(const T*) {
  using L = DatasetLayout;
  constexpr Range kGenerated{.low = 1, .high = 1e6};
  constexpr std::string_view kUnit = "a pixel value of 255 counts as 1 here: divide by 255";
  constexpr Range kMean{.low = 0, .high = 1, .of_descriptors = true, .why = kUnit},
      kDeviation{.low = 0, .high = 1, .low_open = true, .of_descriptors = true, .why = kUnit};
  constexpr When<T> kFiles{[](const T& c) { return !c.generated(); }, "{name} is generated and has no {}"};
  constexpr std::string_view kOnlyShapes = "only shapes and gratings are generated; {name} has no {}";
  constexpr When<T> kGeneratedOnly{[](const T& c) { return c.generated(); }, kOnlyShapes};
  constexpr When<T> kCut{[](const T& c) { return c.cuts(); }, "every slice is a whole split, so {} has no effect"};
  constexpr When<T> kShards{[](const T& c) { return c.layout == L::webdataset; }, "only layout webdataset has shards"};
  return Fields{
      field("name", &T::name, "gratings, shapes, cifar10 or another known data set; with `path`, a name of your own"),
      field("path", &T::path, "folder below the data root; the name if omitted").when(kFiles),
      field("layout", &T::layout, "how the files are laid out; known: as the name implies").when(kFiles),
      field("train", &T::train, "slice to train on, such as \"train[:99%]\""),
      field("eval", &T::eval, "slice to evaluate on"),
      field(
          "minival", &T::minival,
          "a third slice to select by, evaluated along with eval; shares no image with the other two; none if omitted"),
      field("train_shards", &T::train_shards,
            "webdataset: file names, such as \"pets-train-{0000..0146}.tar\"; named after the split if omitted")
          .when(kShards),
      field("eval_shards", &T::eval_shards, "webdataset: the same for evaluation").when(kShards),
      field("labels", &T::labels, "image_list: the file of labels, below `path`")
          .when({[](const T& c) { return traits_of(c.layout).files; }, "only layout image_list has a file of labels"}),
      field("masks", &T::masks,
            "task segment: how the pixels of a mask are labels; classes: as they are; from_one: 0 is ignored and "
            "1 is the first class; 255 is ignored")
          .when({[](const T& c) {
                   return c.layout == L::image_masks || c.layout == L::webdataset ||
                          (c.layout == L::known && (c.name == "shapes" || c.name == "ade20k"));
                 },
                 "only layouts image_masks and webdataset, and the data sets shapes and ade20k, have masks"}),
      field("captions", &T::captions,
            "a text belongs to each image: of shapes with a label other than relation, or, for webdataset, "
            "the member .txt; training samples then need no .cls"),
      field("vocabulary", &T::vocabulary, "with captions: a file below `path` with one word per line; bytes if omitted")
          .when(kFiles)
          .when({[](const T& c) { return c.captions; }, "only captions have a vocabulary"}),
      field("classes", &T::classes, "names of the classes to use, in the order of their labels; all if omitted"),
      field("class_groups", &T::class_groups,
            "classes of the data to use and to merge, as {\"animal\": [\"cat\", \"dog\"], \"vehicle\": [\"ship\"]}; "
            "labels count in the order of the names' bytes"),
      field("per_class", &T::per_class, "training images per class of the data; 0: all", kFromZero),
      field("fraction", &T::fraction, "share of the training slice to train on", kOpenShare),
      field("subset_seed", &T::subset_seed, "seed by which per_class and fraction choose images")
          .when({[](const T& c) { return c.per_class > 0 || c.fraction < 1; },
                 "neither per_class nor fraction selects a part of the slice"}),
      field("allow_absent_classes", &T::allow_absent_classes,
            "allow a training slice that lacks a class, or a class whose pixels it lacks"),
      field("allow_small_eval", &T::allow_small_eval, "allow an evaluation slice of fewer than 10 images").when(kFiles),
      field("stratified", &T::stratified,
            "cut the percentages of a slice, such as \"train[:80%]\", from each class, so that all have their share")
          .when(kCut)
          .when({[](const T& c) { return c.masks == MaskLabels::none && !c.captions; },
                 "only images with classes can be {}"}),
      field("slice_seed", &T::slice_seed, "seed of the permutation of images that slices are ranges of").when(kCut),
      field("order", &T::order, "shuffled over the whole slice, or read shard by shard through a buffer")
          .when(kFiles)
          .when({[](const T& c) { return c.layout == L::webdataset || c.layout == L::known; }, kOnlyShapes}),
      field("shuffle_buffer", &T::shuffle_buffer, "order shards: samples in the buffer that the next one is drawn from",
            kFromOne)
          .when({[](const T& c) { return c.order == SampleOrder::shards; }, "only order shards has a buffer"}),
      field("on_bad_image", &T::on_bad_image,
            "an image that cannot be decoded ends the trial, or is left out, named and counted")
          .when(kFiles)
          .when({[](const T& c) { return !traits_of(c.layout).one_shape; }, kOnlyShapes}),
      field("mean", &T::mean, "mean of each channel, where 255 is 1; that of the training slice if omitted", kMean),
      field("std", &T::std, "standard deviation of each channel, where 255 is 1; that of the training slice if omitted",
            kDeviation),
      field("train_images", &T::train_images, "gratings, shapes: training images to generate", kGenerated)
          .when(kGeneratedOnly),
      field("eval_images", &T::eval_images, "gratings, shapes: test images to generate", kGenerated)
          .when(kGeneratedOnly),
      field("shapes_seed", &T::shapes_seed, "gratings, shapes: seed of the images, not of the trial")
          .when(kGeneratedOnly),
      field("label", &T::label,
            "shapes: how a disc and a cross lie to each other; or scenes of 1 to 4 objects, by the kind, "
            "colour or position of the largest or by their number")
          .when({[](const T& c) { return c.name == "shapes"; }, "only shapes has labels to choose from"}),
      field("labels_from", &T::labels_from,
            "the first number of labels that are numbers; as only one of 0 and 1 fits if omitted, and "
            "0 for webdataset and idx",
            {.low = 0, .high = 1})
          .when({[](const T& c) { return !c.labels.empty() || traits_of(c.layout).numbered; },
                 "only a file of labels and the layouts webdataset and idx have numbers as labels"}),
      field("class_order", &T::class_order,
            "image_folder, image_list, tiny_imagenet: the order of the classes, by which their labels count; bytes, "
            "natural, or a file below `path` with a class name per line; bytes or classes.txt if omitted")
          .when(kFiles)
          .when({[](const T& c) { return traits_of(c.layout).ordered; },
                 "the classes of layout {layout} have an order"})};
}

/// Properties that a dataset's name implies.
struct KnownDataset {
  std::string_view name;
  std::array<std::int64_t, 2> image_size;  // 0: images of many sizes
  std::int64_t channels, num_classes;
  std::int64_t train_images = 0, eval_images = 0;  // 0: set by the descriptor
  bool balanced = false;                           // as many images of each class
  bool lossless = false;                           // published as pixels or PNG, so a JPEG has other pixels
};
inline constexpr KnownDataset kKnownDatasets[] = {
    {"gratings", {32, 32}, 3, 10, 0, 0, true},
    {"shapes", {32, 32}, 3, 10, 0, 0, true},
    {"cifar10", {32, 32}, 3, 10, 50'000, 10'000, true, true},
    {"cifar100", {32, 32}, 3, 100, 50'000, 10'000, true, true},
    {"mnist", {28, 28}, 1, 10, 60'000, 10'000, false, true},
    {"fashion_mnist", {28, 28}, 1, 10, 60'000, 10'000, false, true},
    {"kmnist", {28, 28}, 1, 10, 60'000, 10'000, false, true},
    {"tiny-imagenet-200", {64, 64}, 3, 200, 100'000, 10'000, true},
    {"imagenet", {0, 0}, 3, 1000, 1'281'167, 50'000},
    {"imagenet21k", {0, 0}, 3, 21'841, 14'197'122, 0},
    {"sun397", {0, 0}, 3, 397, 76'128, 21'750},
    {"ade20k", {0, 0}, 3, 150, 20'210, 2'000},
    {"cc12m", {0, 0}, 3, 1000, 12'423'374, 50'000},
    // Tasks of VTAB; sizes as TensorFlow Datasets has them. None may imply the sizes of the defaults, which ids omit.
    {"caltech101", {0, 0}, 3, 102, 3'059, 6'084},
    {"dtd", {0, 0}, 3, 47, 1'880, 1'880},
    {"flowers102", {0, 0}, 3, 102, 1'020, 6'149},
    {"oxford_pets", {0, 0}, 3, 37, 3'680, 3'669},
    {"svhn", {0, 0}, 3, 10, 73'257, 26'032, false, true},
    {"patch_camelyon", {96, 96}, 3, 2, 262'144, 32'768, false, true},
    {"eurosat", {64, 64}, 3, 10, 27'000, 0},
    {"resisc45", {256, 256}, 3, 45, 31'500, 0},
    {"retinopathy", {0, 0}, 3, 5, 35'126, 42'670},
    {"clevr_count", {320, 480}, 3, 8, 70'000, 15'000, false, true},
    {"clevr_distance", {320, 480}, 3, 6, 70'000, 15'000, false, true},
    {"dmlab", {360, 480}, 3, 6, 65'550, 22'735},
    {"dsprites_location", {64, 64}, 3, 16, 737'280, 0, false, true},
    {"dsprites_orientation", {64, 64}, 3, 16, 737'280, 0, false, true},
    {"kitti_distance", {0, 0}, 3, 4, 6'347, 711, false, true},
    {"smallnorb_azimuth", {96, 96}, 3, 18, 24'300, 24'300, false, true},
    {"smallnorb_elevation", {96, 96}, 3, 9, 24'300, 24'300, false, true}};
inline const KnownDataset* find_dataset(std::string_view name) {
  for (const KnownDataset& dataset : kKnownDatasets)
    if (dataset.name == name) return &dataset;
  return nullptr;
}
/// How many classes a known data set has, as labelled.
inline std::int64_t known_classes(const KnownDataset& known, const DatasetConfig& config) {
  if (known.name == "shapes" && config.masks != MaskLabels::none)  // the kinds of scenes, and perhaps the background
    return kShapesClasses[static_cast<std::size_t>(ShapesLabel::kind)] + (config.masks == MaskLabels::classes ? 1 : 0);
  return known.name == "shapes" ? kShapesClasses[static_cast<std::size_t>(config.label)] : known.num_classes;
}

}  // namespace normlab
