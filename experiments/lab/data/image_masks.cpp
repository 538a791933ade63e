#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/data/image_files.h"
#include "experiments/lab/data/readers.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

/// "a/b.png" for "a/b.jpg".
std::string mask_name(const std::string& image) { return fs::path(image).replace_extension(".png").string(); }

}  // namespace

ImageSet read_image_masks(const fs::path& folder, const SliceRequest& request) {
  const std::string& split = request.slice.split;
  ImageIndex index{"images with masks",     folder / "images" / split, {}, read_class_names(folder / "classes.txt"), {},
                   folder / "masks" / split};
  for (const fs::path& part : {index.folder, index.mask_folder})
    if (!is_folder(part))
      throw InputError(concat(part.string(), ": no such folder; split ", in_quotes(split), " needs images/", split,
                              "/NAME.jpg and masks/", split, "/NAME.png"));
  StrayFiles strays;
  const std::vector<std::string> images = find_images(index.folder, strays),
                                 masks = find_images(index.mask_folder, strays);
  std::set<std::string> unused(masks.begin(), masks.end());
  for (const std::string& image : images) {
    const std::string mask = mask_name(image);
    if (unused.erase(mask) == 0)
      strays.add(index.folder / image,
                 std::binary_search(masks.begin(), masks.end(), mask)
                     ? "another image has the same name; a mask belongs to one image"
                     : concat("its mask ", visible_line((index.mask_folder / mask).string()), " is missing"));
    ImageEntry entry{.key = image, .label = 0};
    entry.mask = std::make_shared<ImageEntry>(ImageEntry{.key = mask, .label = 0});
    index.entries.push_back(std::move(entry));
  }
  for (const std::string& mask : unused) strays.add(index.mask_folder / mask, "no image has its name");
  strays.refuse();
  if (images.empty()) throw InputError(concat(index.folder.string(), ": holds no images"));
  return load_images(std::move(index), request);
}

const LayoutRow kImageMasksLayout{
    .layout = DatasetLayout::image_masks,
    .expected = "classes.txt, images/train/NAME.jpg and masks/train/NAME.png, and the same for val (or test)",
    .find = find_folder,
    .splits = [](const fs::path& folder) { return training_first(folder_content(folder / "images").folders); },
    .classes = listed_classes,
    .read = [](const DatasetConfig&, const fs::path& folder, const std::string&,
               const SliceRequest& request) { return read_image_masks(folder, request); }};

}  // namespace normlab
