#include <algorithm>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/data/image_files.h"
#include "experiments/data/readers.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSplits[] = {"train", "val", "valid", "validation", "dev", "test"};

/// A split with a capital letter would become a class, or would not be used.
void refuse_capital_splits(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string(), lower = lower_case(name);
    if (name == lower || std::find(std::begin(kSplits), std::end(kSplits), lower) == std::end(kSplits)) continue;
    if (is_folder(entry->path()))
      throw InputError(concat(entry->path().string(), ": is a split or a class? Rename the folder of a split to ",
                              lower, "; put the folders of classes into a folder train"));
  }
}

void refuse_tiny_imagenet(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "val_annotations.txt", error))
    throw InputError(concat(folder.string(),
                            ": holds val_annotations.txt, so it is the val folder of tiny-imagenet-200, which has no "
                            "class folders; use its parent folder with layout tiny_imagenet"));
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

fs::path split_folder(const fs::path& folder, const std::string& split) {
  const std::vector<std::string> splits = image_folder_splits(folder);
  if (std::find(splits.begin(), splits.end(), split) == splits.end()) {
    const bool undivided = !is_folder(folder / splits.at(0));
    throw InputError(
        concat(folder.string(), ": has no split ", in_quotes(split), "; ",
               undivided ? "its folders are the classes of one split, \"train\"; use slices of it, such as "
                           "\"train[:80%]\" and \"train[80%:]\""
                         : concat("it has ", joined(splits), "; name one of them in dataset.train and dataset.eval")));
  }
  return is_folder(folder / split) ? folder / split : folder;
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

std::vector<std::string> image_folder_splits(const fs::path& folder) {
  refuse_capital_splits(folder);
  std::vector<std::string> splits;
  for (const std::string_view split : kSplits) {
    if (is_folder(folder / split)) splits.emplace_back(split);
  }
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
      index.entries.push_back(
          {name + "/" + image, static_cast<std::int32_t>(at - index.class_names.begin()), -1, {}, 0, -1, {}});
    }
  }
  strays.refuse();
  return load_images(std::move(index), request);
}

}  // namespace normlab
