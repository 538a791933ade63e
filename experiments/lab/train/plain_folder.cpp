#include "experiments/lab/train/plain_folder.h"

#include <algorithm>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/data/dataset.h"
#include "experiments/lab/data/dataset_place.h"
#include "experiments/lab/data/image_files.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

/// The folder that --data names, as DataSource finds it; none for a file, or what is not there.
std::optional<fs::path> folder_of(const EvalSource& source) {
  const fs::path given = fs::absolute(fs::path(source.data) / "").lexically_normal().parent_path();
  if (!source.root && is_folder(given)) return given;
  std::error_code error;
  const fs::path root = source.root ? fs::path(*source.root) : fs::path();
  if (source.root && is_folder(root / source.data)) return root / source.data;
  return std::nullopt;
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) out += concat(i == 0 ? "" : ", ", in_quotes(names[i]));
  return names.size() > kShown ? concat(out, " and ", names.size() - kShown, " more") : out;
}

/// Whether the folders in `folder` are classes.
bool are_classes(const fs::path& folder, const std::vector<std::string>& names, std::int64_t classes,
                 const std::optional<TrainedOn>& trained) {
  if (!trained) return std::ssize(names) == classes;
  std::vector<std::string> others;
  for (const std::string& name : names)
    if (std::find(trained->class_names.begin(), trained->class_names.end(), name) == trained->class_names.end())
      others.push_back(name);
  if (others.empty() || others.size() == names.size()) return others.empty();
  throw InputError(concat(folder.string(), ": some of its folders are classes of the training, others are not: ",
                          list_of(others), "; rename these, or give --layout image_folder to compare all names"));
}

}  // namespace

FolderKind folder_kind(const EvalSource& source, std::int64_t classes, const std::optional<TrainedOn>& trained) {
  FolderKind kind;
  if (source.data.empty() || source.layout != DatasetLayout::known || source.labels || find_dataset(source.data))
    return kind;
  const std::optional<fs::path> folder = folder_of(source);
  if (!folder) return kind;
  kind.path = *folder;
  const FolderContent content = folder_content(*folder);
  if (std::any_of(content.files.begin(), content.files.end(), has_image_extension)) {
    kind.plain = true;
    return kind;
  }
  const auto [layout, labels] = recognised_layout(*folder);
  if (layout == DatasetLayout::image_list)
    throw InputError(
        concat(folder->string(), ": images and a file of labels; give --layout image_list --labels ", labels));
  const DatasetPlace place{layout, *folder};
  const std::vector<std::string> splits = dataset_splits(place);
  const bool divided = layout != DatasetLayout::image_folder || is_folder(*folder / splits.front());
  if (!divided && !are_classes(*folder, content.folders, classes, trained)) {
    kind.plain = true;
    return kind;
  }
  kind.layout = layout;
  if (!source.slice_given)
    kind.slice = std::find(splits.begin(), splits.end(), source.slice) == splits.end() ? splits.back() : source.slice;
  return kind;
}

PlainImages find_plain_images(const fs::path& folder) {
  PlainImages found;
  StrayFiles others;
  found.images = find_images(folder, others);
  found.others = others.text();
  if (found.images.empty())
    throw InputError(
        concat(folder.string(), ": holds no image (.jpg, .jpeg or .png), neither itself nor in its folders"));
  return found;
}

}  // namespace normlab
