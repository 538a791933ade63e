#include "experiments/lab/data/dataset_place.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/data/generated.h"
#include "experiments/lab/data/image_files.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;
using Layout = DatasetLayout;

using Places = std::vector<std::pair<fs::path, Layout>>;

/// Places below the root to search for a known dataset, in order.
struct KnownPlaces {
  std::string_view name;
  std::vector<std::pair<std::string, Layout>> places;  // "": the root itself
  std::string_view packaged{};  // X of Debian's package dataset-X, which installs datasets/X and has the first layout
};
const std::vector<KnownPlaces>& known_places() {
  static const std::vector<KnownPlaces> kPlaces = [] {
    std::vector<KnownPlaces> places{
        {"cifar10",
         {{"cifar10", Layout::webdataset}, {"cifar10", Layout::cifar}, {"", Layout::webdataset}, {"", Layout::cifar}}},
        {"cifar100", {{"cifar100", Layout::webdataset}, {"cifar100", Layout::cifar}, {"", Layout::cifar}}},
        {"mnist", {{"mnist", Layout::idx}, {"MNIST/raw", Layout::idx}}},
        {"fashion_mnist", {{"fashion_mnist", Layout::idx}, {"FashionMNIST/raw", Layout::idx}}, "fashion-mnist"},
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

const LayoutRow& row_of(Layout layout) {
  return **std::find_if(std::begin(kLayouts), std::end(kLayouts),
                        [&](const LayoutRow* row) { return row->layout == layout; });
}

std::string expected_in(const LayoutRow& row, const DatasetConfig& config) {
  return row.expected != nullptr ? row.expected : row.expected_of(config);
}

fs::path below_root(const DatasetConfig& config) {
  fs::path below = config.path.empty() ? config.name : config.path;
  if (below.is_absolute() || std::find(below.begin(), below.end(), "..") != below.end()) {
    throw InputError(concat("dataset path ", in_quotes(below.string()),
                            " is outside the data root; give a path below the root, and the root with ",
                            kDataRootOption, " or NORMLAB_DATA"));
  }
  return below;
}

/// Null if the layout is given. InputError if the name is not known.
const KnownPlaces* known_places_of(const DatasetConfig& config) {
  if (config.layout != Layout::known) return nullptr;
  std::string names = "\"gratings\", \"shapes\"";
  for (const KnownPlaces& known : known_places()) {
    if (config.name == known.name) return &known;
    names += concat(", \"", known.name, "\"");
  }
  throw InputError(concat("dataset ", in_quotes(config.name), " is not a known name (", names,
                          "); for a data set of your own set \"layout\""));
}

void add_places_below(const fs::path& root, const DatasetConfig& config, const KnownPlaces* known, Places& places) {
  const fs::path below = below_root(config);
  if (known == nullptr) return void(places.emplace_back(root / below, config.layout));
  for (const auto& [folder, layout] : known->places) {
    if (config.path.empty()) {
      places.emplace_back(folder.empty() ? root : root / folder, layout);
    } else if (folder == known->places[0].first) {  // with a path, only the layouts matter
      places.emplace_back(root / below, layout);
    }
  }
}

/// Where packages install it: below the folders that the XDG Base Directory Specification names.
void add_installed_places(const KnownPlaces& known, Places& places) {
  const char* const set = std::getenv("XDG_DATA_DIRS");
  std::istringstream folders(set != nullptr && *set != '\0' ? set : "/usr/local/share:/usr/share");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (fs::path(folder).is_absolute())  // the specification ignores others
      places.emplace_back(fs::path(folder) / "datasets" / known.packaged, known.places[0].second);
}

[[noreturn]] void refuse_missing(const DatasetConfig& config, const Places& places, std::string_view packaged) {
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
  for (const Layout layout : layouts) message += concat("  ", expected_in(row_of(layout), config), "\n");
  throw InputError(
      concat(message, packaged.empty() ? "" : concat("Install Debian's package dataset-", packaged, ", or g"),
             packaged.empty() ? "G" : "", "ive the parent folder with ", kDataRootOption, " or NORMLAB_DATA."));
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

/// Classes of other layouts are in the order of a file.
void require_ordered(const DatasetConfig& config, const DatasetPlace& place) {
  if (config.class_order.empty() || (place.layout != Layout::known && traits_of(place.layout).ordered)) return;
  throw InputError(concat("dataset ", in_quotes(config.name), ": class_order ", in_quotes(config.class_order),
                          " orders classes that are folders or in a list, but those of layout ", word_of(place.layout),
                          " have an order; leave it out"));
}

}  // namespace

std::optional<fs::path> find_data_root(const std::optional<fs::path>& from_command_line) {
  if (from_command_line) {
    if (is_folder(*from_command_line)) return *from_command_line;
    throw InputError(concat("data folder ", from_command_line->string(), ": no such folder; give another one with ",
                            kDataRootOption));
  }
  const char* variable = std::getenv("NORMLAB_DATA");
  if (variable != nullptr && *variable != '\0') {
    if (is_folder(variable)) return variable;
    throw InputError(concat("NORMLAB_DATA is ", variable, ": no such folder"));
  }
  return is_folder("data") ? std::optional<fs::path>("data") : std::nullopt;
}

DatasetPlace find_dataset_place(const DatasetConfig& config, const std::optional<fs::path>& data_from_command_line) {
  const std::optional<fs::path> root = find_data_root(data_from_command_line);
  const KnownPlaces* const known = known_places_of(config);
  const std::string_view packaged = known != nullptr && config.path.empty() ? known->packaged : "";
  Places places;
  if (root) add_places_below(*root, config, known, places);
  if (!packaged.empty()) add_installed_places(*known, places);
  if (places.empty())
    throw InputError(concat("no data folder: ", kDataRootOption,
                            " is not given, NORMLAB_DATA is not set, and there is no ",
                            (fs::current_path() / "data").string()));
  for (const auto& [folder, layout] : places) {
    if (const auto found = row_of(layout).find(folder, config)) return {layout, *found};
  }
  refuse_missing(config, places, packaged);
}

std::pair<DatasetLayout, std::string> recognised_layout(const fs::path& folder) {
  const DatasetConfig unnamed{.name = ""};
  for (const LayoutRow* row : kLayouts)
    if (row->recognised && row->find(folder, unnamed)) return {row->layout, ""};
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
  for (const LayoutRow* row : kLayouts)
    if (row != &kImageMasksLayout) message += concat("  ", expected_in(*row, unnamed), "\n");
  message.pop_back();
  throw InputError(concat(message, ", with one line FILE LABEL per image"));
}

std::optional<fs::path> find_folder(const fs::path& folder, const DatasetConfig&) {
  return is_folder(folder) ? std::optional(folder) : std::nullopt;
}

std::vector<std::string> train_and_test(const fs::path&) { return {"train", "test"}; }

std::vector<std::string> listed_classes(const DatasetConfig&, const fs::path& folder) {
  return read_class_names(folder / "classes.txt", EqualNames::allowed);
}

std::vector<std::string> training_first(std::vector<std::string> splits) {
  std::stable_partition(splits.begin(), splits.end(), is_training_split);
  return splits;
}

std::vector<std::string> dataset_splits(const DatasetPlace& place) {
  if (place.layout == Layout::known) return {"train", "test"};  // generated
  return row_of(place.layout).splits(place.folder);
}

std::vector<std::string> dataset_classes(const DatasetConfig& config, const DatasetPlace& place) {
  if (place.layout == Layout::known) return generated_classes(config);
  return row_of(place.layout).classes(config, place.folder);
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
  request.numbers = {config.labels_from, config.class_order};
  require_ordered(config, place);
  if (place.layout == Layout::known) return make_generated(config, request);
  return row_of(place.layout).read(config, place.folder, shard_names, request);
}

}  // namespace normlab
