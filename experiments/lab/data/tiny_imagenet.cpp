#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/data/class_order.h"
#include "experiments/lab/data/image_files.h"
#include "experiments/lab/data/readers.h"
#include "experiments/lab/data/text_lines.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

using Labels = std::map<std::string, std::int32_t>;  // by wnid

void add_image(ImageIndex& index, std::string key, std::int32_t label) {
  index.entries.push_back({std::move(key), label});
}

void list_train(const fs::path& folder, const Labels& labels, ImageIndex& index) {
  StrayFiles strays;
  for (const auto& [wnid, label] : labels) {
    const std::string images = wnid + "/images";
    const FolderContent content = folder_content(folder / images);
    for (const std::string& file : content.files) {
      if (has_image_extension(file))
        add_image(index, images + "/" + file, label);
      else
        strays.add(folder / images / file, "is not an image");
    }
    if (content.files.empty()) throw InputError(concat((folder / images).string(), ": this class has no images"));
  }
  for (const std::string& name : folder_content(folder).folders) {
    if (!labels.contains(name)) strays.add(folder / name, "wnids.txt has no class of this name");
  }
  strays.refuse();
}

/// Lines "file TAB wnid TAB box".
void list_val(const fs::path& annotations, const Labels& labels, ImageIndex& index) {
  std::size_t number = 0;
  for (const std::string& line : text_lines(annotations, "it holds the labels of val")) {
    ++number;
    if (line.empty()) continue;
    const std::string where = concat(annotations.string(), ":", number, ": ");
    const std::size_t tab = line.find('\t');
    if (tab == 0 || tab == line.npos || !has_image_extension(line.substr(0, tab)) || line.find('/') < tab)
      throw InputError(concat(where, "expected file, tab, WNID, tab and a box"));
    const std::size_t end = std::min(line.find('\t', tab + 1), line.size());
    const auto label = labels.find(line.substr(tab + 1, end - tab - 1));
    if (label == labels.end())
      throw InputError(concat(where, "wnids.txt has no ", in_quotes(line.substr(tab + 1, end - tab - 1))));
    add_image(index, line.substr(0, tab), label->second);
  }
  std::vector<std::string> listed;
  for (const ImageEntry& entry : index.entries) listed.push_back(entry.key);
  std::sort(listed.begin(), listed.end());
  StrayFiles strays;
  for (const std::string& file : folder_content(index.folder).files)
    if (!std::binary_search(listed.begin(), listed.end(), file))
      strays.add(index.folder / file, concat("has no label in ", annotations.filename().string()));
  strays.refuse();
}

}  // namespace

bool has_tiny_imagenet(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "wnids.txt", error) && fs::is_directory(folder / "train", error);
}

static std::vector<std::string> tiny_imagenet_classes(const fs::path& folder, const std::string& class_order) {
  return in_class_order(in_bytes_order(read_class_names(folder / "wnids.txt")), class_order, folder);
}

ImageSet read_tiny_imagenet(const fs::path& folder, const SliceRequest& request) {
  ImageIndex index{"tiny-imagenet-200", {}, {}, tiny_imagenet_classes(folder, request.numbers.order), {}};
  Labels labels;
  for (std::size_t i = 0; i < index.class_names.size(); ++i)
    labels[index.class_names[i]] = static_cast<std::int32_t>(i);
  if (request.slice.split == "train") {
    index.folder = folder / "train";
    list_train(index.folder, labels, index);
  } else if (request.slice.split == "val") {
    index.folder = folder / "val" / "images";
    list_val(folder / "val" / "val_annotations.txt", labels, index);
  } else {
    throw InputError(
        concat("split ", in_quotes(request.slice.split), ": the splits of tiny-imagenet-200 are \"train\" and \"val\"",
               request.slice.split == "test" ? "; its test images have no labels: set dataset.eval to \"val\"" : ""));
  }
  return load_images(std::move(index), request);
}

const LayoutRow kTinyImagenetLayout{
    .layout = DatasetLayout::tiny_imagenet,
    .expected = "wnids.txt, train/WNID/images/*.JPEG, val/images/*.JPEG, val/val_annotations.txt",
    .find = [](const fs::path& folder,
               const DatasetConfig&) { return has_tiny_imagenet(folder) ? std::optional(folder) : std::nullopt; },
    .splits =
        [](const fs::path&) {
          return std::vector<std::string>{"train", "val"};
        },
    .classes = [](const DatasetConfig& config,
                  const fs::path& folder) { return tiny_imagenet_classes(folder, config.class_order); },
    .read = [](const DatasetConfig&, const fs::path& folder, const std::string&,
               const SliceRequest& request) { return read_tiny_imagenet(folder, request); },
    .recognised = true};

}  // namespace normlab
