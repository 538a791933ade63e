// What `normlab eval --data FOLDER` finds in a folder whose layout is not given.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/train/eval_images.h"

namespace normlab {

/// plain: images without classes. Otherwise how they are laid out, if that is not known already, and the slice to
/// evaluate, if the command line names none.
struct FolderKind {
  bool plain = false;
  std::filesystem::path path;
  std::optional<DatasetLayout> layout{};
  std::string slice;
};

/// A folder has classes if it has splits (train, val, test, ...), or the layout of a known kind of data set, or if its
/// folders are classes of the training; without a record of the training, if it has as many folders as the network has
/// classes. Images in the folder itself, and nested ones in other folders, have none. Not of data sets known by name,
/// nor with --layout or --labels. InputError for a folder without images, and for one in which only some folders are
/// classes of the training.
FolderKind folder_kind(const EvalSource& source, std::int64_t classes, const std::optional<TrainedOn>& trained);

struct PlainImages {
  std::vector<std::string> images;  // below the folder, in byte order
  std::string others;               // files that are not read, one per line with the reason; "" if there are none
};
/// All images of a folder and of those in it, without names that begin with a dot. InputError as find_images(), and
/// without an image.
PlainImages find_plain_images(const std::filesystem::path& folder);

}  // namespace normlab
