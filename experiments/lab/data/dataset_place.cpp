#include "experiments/lab/data/dataset_place.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/data/class_order.h"
#include "experiments/lab/data/generated.h"
#include "experiments/lab/data/image_files.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;
using Layout = DatasetLayout;

constexpr const char *kCifar10Folder = "cifar-10-batches-bin", *kCifar100Folder = "cifar-100-binary";

/// Places below the root to search for a known dataset, in order.
struct KnownPlaces {
  std::string_view name;
  std::vector<std::pair<std::string, Layout>> places;  // "": the root itself
};
const std::vector<KnownPlaces>& known_places() {
  static const std::vector<KnownPlaces> kPlaces = [] {
    std::vector<KnownPlaces> places{
        {"cifar10",
         {{"cifar10", Layout::webdataset}, {"cifar10", Layout::cifar}, {"", Layout::webdataset}, {"", Layout::cifar}}},
        {"cifar100", {{"cifar100", Layout::webdataset}, {"cifar100", Layout::cifar}, {"", Layout::cifar}}},
        {"mnist", {{"mnist", Layout::idx}, {"MNIST/raw", Layout::idx}}},
        {"fashion_mnist", {{"fashion_mnist", Layout::idx}, {"FashionMNIST/raw", Layout::idx}}},
        {"kmnist", {{"kmnist", Layout::idx}, {"KMNIST/raw", Layout::idx}}},
        {"tiny-imagenet-200", {{"tiny-imagenet-200", Layout::tiny_imagenet}, {"", Layout::tiny_imagenet}}},
        {"imagenet", {{"imagenet", Layout::image_folder}}},
        {"imagenet21k", {{"imagenet21k", Layout::webdataset}, {"imagenet21k", Layout::image_folder}}},
        {"sun397", {{"sun397", Layout::webdataset}, {"sun397", Layout::image_folder}}},
        {"ade20k", {{"ade20k", Layout::image_masks}}},
        {"cc12m", {{"cc12m", Layout::webdataset}}}};
    for (const KnownDataset& known : kKnownDatasets) {  // the others: a folder of their name
      const std::string name(known.name);
      const bool listed =
          std::any_of(places.begin(), places.end(), [&](const KnownPlaces& p) { return p.name == name; });
      if (!listed && name != "gratings" && name != "shapes")
        places.push_back({known.name, {{name, Layout::webdataset}, {name, Layout::image_folder}}});
    }
    return places;
  }();
  return kPlaces;
}

const char* expected(const DatasetConfig& config, Layout layout) {
  switch (layout) {
    case Layout::webdataset:
      return "classes.txt and shards train-000000.tar, ..., test-000000.tar (or .tar.gz)";
    case Layout::cifar:
      if (config.name == "cifar10")
        return "cifar-10-batches-bin/ with data_batch_1.bin to data_batch_5.bin, test_batch.bin, batches.meta.txt";
      if (config.name == "cifar100") return "cifar-100-binary/ with train.bin, test.bin, fine_label_names.txt";
      return "data_batch_1.bin to data_batch_5.bin, test_batch.bin, batches.meta.txt (CIFAR-10), or train.bin, "
             "test.bin, "
             "fine_label_names.txt (CIFAR-100)";
    case Layout::idx:
      return "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte (or "
             ".gz)";
    case Layout::tiny_imagenet:
      return "wnids.txt, train/WNID/images/*.JPEG, val/images/*.JPEG, val/val_annotations.txt";
    case Layout::image_masks:
      return "classes.txt, images/train/NAME.jpg and masks/train/NAME.png, and the same for val (or test)";
    case Layout::image_folder:
      return "train/CLASS/*.jpg and val/CLASS/*.jpg (or test/), or CLASS/*.jpg";
    default:
      return "images in a flat folder and a file of labels";
  }
}

std::optional<fs::path> look_in(const fs::path& folder, const DatasetConfig& config, Layout layout) {
  const auto first = [](std::initializer_list<fs::path> places, bool (*there)(const fs::path&)) {
    const auto* found = std::find_if(places.begin(), places.end(), there);
    return found == places.end() ? std::nullopt : std::optional(*found);
  };
  switch (layout) {
    case Layout::webdataset:
      if (!config.train_shards.empty()) return first({folder}, is_folder);
      return first({folder}, [](const fs::path& place) { return !webdataset_splits(place).empty(); });
    case Layout::cifar: {
      std::optional<fs::path> found;
      if (config.name != "cifar100") found = first({folder, folder / kCifar10Folder}, has_cifar10_binary);
      if (!found && config.name != "cifar10") found = first({folder, folder / kCifar100Folder}, has_cifar100_binary);
      return found;
    }
    case Layout::idx:
      return first({folder, folder / "raw"}, has_idx);
    case Layout::tiny_imagenet:
      return first({folder}, has_tiny_imagenet);
    default:
      return first({folder}, is_folder);
  }
}

fs::path below_root(const DatasetConfig& config) {
  const fs::path below = config.path.empty() ? config.name : config.path;
  if (below.is_absolute() || std::find(below.begin(), below.end(), "..") != below.end()) {
    throw InputError(concat("dataset path ", in_quotes(below.string()),
                            " is outside the data root; give a path below the root, and the root with ",
                            kDataRootOption, " or NORMLAB_DATA"));
  }
  return below;
}

std::vector<std::pair<fs::path, Layout>> places_of(const DatasetConfig& config, const fs::path& root) {
  const fs::path below = below_root(config);
  if (config.layout != Layout::known) return {{root / below, config.layout}};
  std::vector<std::pair<fs::path, Layout>> places;
  for (const KnownPlaces& known : known_places()) {
    if (config.name != known.name) continue;
    for (const auto& [folder, layout] : known.places) {
      if (config.path.empty()) {
        places.emplace_back(folder.empty() ? root : root / folder, layout);
      } else if (folder == known.places[0].first) {  // with a path, only the layouts matter
        places.emplace_back(root / below, layout);
      }
    }
  }
  return places;
}

[[noreturn]] void refuse_missing(const DatasetConfig& config, const std::vector<std::pair<fs::path, Layout>>& places) {
  std::string message = concat("dataset ", in_quotes(config.name), " was not found. Looked in:\n");
  std::vector<fs::path> folders;
  std::vector<Layout> layouts;
  for (const auto& [folder, layout] : places) {
    if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(folder);
    if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end()) layouts.push_back(layout);
  }
  for (const fs::path& folder : folders)
    message += concat("  ", folder.string(), is_folder(folder) ? "" : " (no such folder)", "\n");
  message += "Expected contents:\n";
  for (const Layout layout : layouts) message += concat("  ", expected(config, layout), "\n");
  throw InputError(concat(message, "Give the parent folder with ", kDataRootOption, " or NORMLAB_DATA."));
}

/// Whether images lie in a training split itself, not in folders of classes, or in images/.
bool holds_flat_images(const fs::path& folder) {
  const std::vector<std::string> folders = folder_content(folder).folders;
  return std::any_of(folders.begin(), folders.end(), [&](const std::string& name) {
    if (!is_training_split(name) && name != kImagesFolder) return false;
    const FolderContent content = folder_content(folder / name);
    return std::any_of(content.files.begin(), content.files.end(), has_image_extension);
  });
}

/// Evaluation images of an image folder may be in one flat folder with a file of labels, as in ImageNet.
bool lies_flat(const DatasetConfig& config, const fs::path& folder) {
  if (config.layout != Layout::image_folder || config.labels.empty() || !is_folder(folder)) return false;
  const FolderContent content = folder_content(folder);
  return content.folders.empty() && !content.files.empty();
}

LabelNumbers numbers_of(const DatasetConfig& config) { return {config.labels_from, config.class_order}; }

/// Classes of other layouts are in the order of a file.
void require_ordered(const DatasetConfig& config, const DatasetPlace& place) {
  if (config.class_order.empty() || place.layout == Layout::image_folder || place.layout == Layout::image_list ||
      place.layout == Layout::tiny_imagenet)
    return;
  throw InputError(concat("dataset ", in_quotes(config.name), ": class_order ", in_quotes(config.class_order),
                          " orders classes that are folders or in a list, but those of layout ", word_of(place.layout),
                          " have an order; leave it out"));
}

}  // namespace

DatasetPlace find_dataset_place(const DatasetConfig& config, const fs::path& root) {
  const auto places = places_of(config, root);
  if (places.empty()) {
    std::string names = "\"gratings\", \"shapes\"";
    for (const KnownPlaces& known : known_places()) names += concat(", \"", known.name, "\"");
    throw InputError(concat("dataset ", in_quotes(config.name), " is not a known name (", names,
                            "); for a data set of your own set \"layout\""));
  }
  for (const auto& [folder, layout] : places) {
    if (const auto found = look_in(folder, config, layout)) return {layout, *found};
  }
  refuse_missing(config, places);
}

std::pair<DatasetLayout, std::string> recognised_layout(const fs::path& folder) {
  const DatasetConfig unnamed{.name = ""};
  constexpr Layout kWithMarks[] = {Layout::webdataset, Layout::cifar, Layout::idx, Layout::tiny_imagenet};
  for (const Layout layout : kWithMarks)
    if (look_in(folder, unnamed, layout)) return {layout, ""};
  if (is_folder(folder / "images") && is_folder(folder / "masks"))
    throw InputError(concat(folder.string(),
                            ": images/ and masks/ are the layout image_masks, of a segmentation; write its descriptor "
                            "by hand (docs/descriptors.md, \"Segmentation\")"));
  const FolderContent content = folder_content(folder);
  const auto images = std::count_if(content.files.begin(), content.files.end(), has_image_extension);
  std::vector<std::string> lists, others;  // files that may hold labels
  for (const std::string& file : content.files)
    if (!has_image_extension(file) && !is_about_folder(file) && file != "classes.txt")
      (names_images(folder / file) ? lists : others).push_back(file);
  if (lists.empty() && (images > 0 || holds_flat_images(folder))) lists = others;  // of labels alone
  if (lists.size() == 1 && (images > 0 || !content.folders.empty())) return {Layout::image_list, lists[0]};
  if (lists.empty() && images == 0 && !content.folders.empty()) return {Layout::image_folder, ""};
  std::string message =
      concat(folder.string(), ": is not a data set of a known layout; it holds ", content.folders.size(), " folders, ",
             images, " images and ", content.files.size() - std::size_t(images), " other files. Expected one of\n");
  for (const Layout layout : kWithMarks) message += concat("  ", expected(unnamed, layout), "\n");
  throw InputError(concat(message, "  ", expected(unnamed, Layout::image_folder), "\n  ",
                          expected(unnamed, Layout::image_list), ", with one line FILE LABEL per image"));
}

std::vector<std::string> dataset_splits(const DatasetPlace& place) {
  const auto training_first = [](std::vector<std::string> splits) {
    std::stable_partition(splits.begin(), splits.end(), is_training_split);
    return splits;
  };
  switch (place.layout) {
    case Layout::webdataset:
      return training_first(webdataset_splits(place.folder));
    case Layout::image_folder:
      return image_folder_splits(place.folder);
    case Layout::image_list:
      return splits_by_name(place.folder);
    case Layout::image_masks:
      return training_first(image_masks_splits(place.folder));
    case Layout::tiny_imagenet:
      return {"train", "val"};
    default:
      return {"train", "test"};
  }
}

std::vector<std::string> dataset_classes(const DatasetConfig& config, const DatasetPlace& place) {
  const std::string split = first_split(config.train);
  switch (place.layout) {
    case Layout::known:
      return generated_classes(config);
    case Layout::image_masks:
    case Layout::webdataset:
      return webdataset_classes(place.folder);
    case Layout::cifar:
      return cifar_classes(place.folder);
    case Layout::idx:
      return idx_classes(place.folder, config.name);
    case Layout::tiny_imagenet:
      return tiny_imagenet_classes(place.folder, config.class_order);
    case Layout::image_list:
      return image_list_classes(place.folder, config.labels, numbers_of(config));
    case Layout::image_folder:
      break;
  }
  if (lies_flat(config, place.folder / split))
    return image_list_classes(place.folder, config.labels, numbers_of(config));
  return in_class_order(image_folder_classes(place.folder, split), config.class_order, place.folder);
}

std::vector<std::string> classes_beside(const DatasetConfig& config, const DatasetPlace& place,
                                        const std::string& split) {
  const std::vector<std::string> splits = dataset_splits(place);
  const bool trains = std::find(splits.begin(), splits.end(), first_split(config.train)) != splits.end();
  DatasetConfig there = config;
  if (!trains) there.train = is_training_split(splits.front()) ? splits.front() : split;
  return dataset_classes(there, place);
}

ImageSet read_dataset(const DatasetConfig& config, const DatasetPlace& place, const std::string& shard_names,
                      SliceRequest request) {
  request.numbers = numbers_of(config);
  require_ordered(config, place);
  switch (place.layout) {
    case Layout::known:
      return make_generated(config, request);
    case Layout::image_masks:
      return read_image_masks(place.folder, request);
    case Layout::webdataset:
      return read_webdataset(place.folder, shard_names, request);
    case Layout::cifar:
      return read_cifar_binary(place.folder, request);
    case Layout::idx:
      return read_idx(place.folder, request);
    case Layout::tiny_imagenet:
      return read_tiny_imagenet(place.folder, request);
    case Layout::image_list:
      request.class_names.clear();  // those of the list, of whichever split
      return read_image_list(place.folder, config.labels, request);
    case Layout::image_folder:
      break;
  }
  if (request.class_names.empty()) request.class_names = classes_beside(config, place, request.slice.split);
  if (!lies_flat(config, place.folder / request.slice.split)) return read_image_folder(place.folder, request);
  if (lies_flat(config, place.folder / first_split(config.train))) request.class_names.clear();
  return read_image_list(place.folder, config.labels, request);
}

}  // namespace normlab
