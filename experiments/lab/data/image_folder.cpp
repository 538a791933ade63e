#include <algorithm>
#include <span>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/data/class_order.h"
#include "experiments/lab/data/dataset_place.h"
#include "experiments/lab/data/image_files.h"
#include "experiments/lab/data/readers.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

/// In the order of dataset_splits(). The first kPlain of each are splits whatever they hold.
constexpr std::string_view kTraining[] = {"train", "training", "train_set", "training_set", "seg_train"};
constexpr std::string_view kEvaluation[] = {"val",      "valid",      "validation", "dev",     "test",
                                            "eval",     "evaluation", "testing",    "val_set", "validation_set",
                                            "test_set", "seg_val",    "seg_test"};
constexpr std::size_t kPlain = 5;  // of kEvaluation; of kTraining one

/// The folders that `names` call, in any letter case.
std::vector<std::string> called(std::span<const std::string_view> names, const std::vector<std::string>& folders) {
  std::vector<std::string> out;
  for (const std::string_view name : names)
    std::copy_if(folders.begin(), folders.end(), std::back_inserter(out),
                 [&](const std::string& folder) { return lower_case(folder) == name; });
  return out;
}

std::string joined(const std::vector<std::string>& words) {
  constexpr std::size_t kShown = 8;
  std::string out;
  for (std::size_t i = 0; i < std::min(words.size(), kShown); ++i) out += (out.empty() ? "" : ", ") + shown(words[i]);
  return words.size() > kShown ? concat(out, " and ", words.size() - kShown, " more") : out;
}

bool holds_folders(const fs::path& folder) { return !folder_content(folder).folders.empty(); }

/// Splits by name. A name that may be a class's, such as Train beside Bus, is refused if no folder holds folders.
std::vector<std::string> named_splits(const fs::path& folder, const std::vector<std::string>& folders) {
  std::vector<std::string> splits = called(kTraining, folders), others = called(kEvaluation, folders);
  splits.insert(splits.end(), others.begin(), others.end());
  const auto plain = [](const std::string& name) {
    return name == kTraining[0] || std::find(kEvaluation, kEvaluation + kPlain, name) != kEvaluation + kPlain;
  };
  const auto odd = std::find_if_not(splits.begin(), splits.end(), plain);
  if (odd == splits.end() || splits.size() == folders.size()) return splits;
  if (std::none_of(splits.begin(), splits.end(),
                   [&](const std::string& split) { return holds_folders(folder / split); }))
    throw InputError(concat((folder / *odd).string(),
                            ": is a split or a class? It holds no folders of classes, and other folders lie beside it. "
                            "Put the folders of classes into a folder train"));
  return splits;
}

/// Folders without images that all hold the same two or more folders, or fewer of them: the classes, in each split.
bool hold_the_same(const fs::path& folder, const std::vector<std::string>& folders) {
  std::vector<std::string> all;
  for (const std::string& name : folders) {
    FolderContent content = folder_content(folder / name);
    if (content.folders.size() < 2 || std::any_of(content.files.begin(), content.files.end(), has_image_extension))
      return false;
    if (all.size() < content.folders.size()) all.swap(content.folders);
    if (!std::includes(all.begin(), all.end(), content.folders.begin(), content.folders.end())) return false;
  }
  return folders.size() > 1;
}

void refuse_tiny_imagenet(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "val_annotations.txt", error))
    throw InputError(concat(folder.string(),
                            ": holds val_annotations.txt, so it is the val folder of tiny-imagenet-200, which has no "
                            "class folders; use its parent folder with layout tiny_imagenet"));
}

fs::path split_folder(const fs::path& folder, const std::string& split) {
  const std::vector<std::string> splits = image_folder_splits(folder);
  const bool undivided = !is_folder(folder / splits.at(0));
  if (std::find(splits.begin(), splits.end(), split) == splits.end())
    throw InputError(
        concat(folder.string(), ": has no split ", in_quotes(split), "; ",
               undivided ? "its folders are the classes of one split, \"train\"; use slices of it, such as "
                           "\"train[:80%]\" and \"train[80%:]\""
                         : concat("it has ", joined(splits), "; name one of them in dataset.train and dataset.eval",
                                  is_split_name(splits[0]) ? ""
                                                           : ", since they all hold the same folders (if they are the "
                                                             "classes, put them into a folder train)")));
  if (undivided) return folder;
  fs::path place = folder / split;
  while (true) {  // some archives hold train/train/CLASS
    const FolderContent content = folder_content(place);
    if (content.folders.size() != 1 || content.folders[0] != split || !content.files.empty()) return place;
    place /= split;
  }
}

std::vector<std::string> class_folders(const fs::path& folder, const std::string& split, StrayFiles& strays) {
  refuse_tiny_imagenet(folder);
  const fs::path of_split = split_folder(folder, split);
  refuse_tiny_imagenet(of_split);
  FolderContent content = folder_content(of_split);
  for (const std::string& file : content.files)
    if (!is_about_folder(file))
      strays.add(of_split / file, "expected one folder per class here, with the images in it");
  if (content.folders.empty()) {
    strays.refuse();
    throw InputError(concat(of_split.string(), ": holds no class folders"));
  }
  return std::move(content.folders);
}

}  // namespace

bool is_split_name(const std::string& folder) {
  return is_training_split(folder) || !called(kEvaluation, {folder}).empty();
}
bool is_training_split(const std::string& folder) { return !called(kTraining, {folder}).empty(); }

std::vector<std::string> splits_by_name(const fs::path& folder) {
  std::vector<std::string> splits = named_splits(folder, folder_content(folder).folders);
  if (splits.empty()) splits.push_back("train");
  return splits;
}

std::vector<std::string> image_folder_splits(const fs::path& folder) {
  std::vector<std::string> folders = folder_content(folder).folders;
  std::vector<std::string> splits = named_splits(folder, folders);
  if (splits.empty() && hold_the_same(folder, folders)) return folders;
  if (splits.empty()) splits.push_back("train");
  return splits;
}

std::vector<std::string> image_folder_classes(const fs::path& folder, const std::string& split) {
  StrayFiles strays;
  std::vector<std::string> classes = class_folders(folder, split, strays);
  strays.refuse();
  return classes;
}

ImageSet read_image_folder(const fs::path& folder, const SliceRequest& request) {
  StrayFiles strays;
  const std::vector<std::string> classes = class_folders(folder, request.slice.split, strays);
  ImageIndex index{"image folder", split_folder(folder, request.slice.split), {}, request.class_names, {}};
  if (index.class_names.empty()) index.class_names = classes;
  for (const std::string& name : classes) {
    const auto at = std::find(index.class_names.begin(), index.class_names.end(), name);
    if (at == index.class_names.end())
      throw InputError(
          concat(visible_line((index.folder / name).string()), ": the training split has no class of this name"));
    const std::vector<std::string> images = find_images(index.folder / name, strays);
    if (images.empty()) {
      strays.refuse();
      throw InputError(concat(visible_line((index.folder / name).string()), ": this class has no images"));
    }
    for (const std::string& image : images) {
      index.entries.push_back({name + "/" + image, static_cast<std::int32_t>(at - index.class_names.begin())});
    }
  }
  strays.refuse();
  return load_images(std::move(index), request);
}

namespace {

/// Evaluation images of an image folder may be in one flat folder with a file of labels, as in ImageNet.
bool lies_flat(const DatasetConfig& config, const fs::path& folder) {
  if (config.layout != DatasetLayout::image_folder || config.labels.empty() || !is_folder(folder)) return false;
  const FolderContent content = folder_content(folder);
  return content.folders.empty() && !content.files.empty();
}

std::vector<std::string> folder_classes(const DatasetConfig& config, const fs::path& folder) {
  const std::string split = first_split(config.train);
  if (lies_flat(config, folder / split))
    return image_list_classes(folder, config.labels, {config.labels_from, config.class_order});
  return in_class_order(image_folder_classes(folder, split), config.class_order, folder);
}

ImageSet read_split(const DatasetConfig& config, const fs::path& folder, const std::string&,
                    const SliceRequest& asked) {
  SliceRequest request = asked;
  if (request.class_names.empty())
    request.class_names = classes_beside(config, {DatasetLayout::image_folder, folder}, request.slice.split);
  if (!lies_flat(config, folder / request.slice.split)) return read_image_folder(folder, request);
  if (lies_flat(config, folder / first_split(config.train))) request.class_names.clear();
  return read_image_list(folder, config.labels, request);
}

}  // namespace

const LayoutRow kImageFolderLayout{.layout = DatasetLayout::image_folder,
                                   .expected = "train/CLASS/*.jpg and val/CLASS/*.jpg (or test/), or CLASS/*.jpg",
                                   .find = find_folder,
                                   .splits = image_folder_splits,
                                   .classes = folder_classes,
                                   .read = read_split};

}  // namespace normlab
